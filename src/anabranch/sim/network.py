"""A simulated network: ordered connections that break, links that are cut, slow or far.

Between two nodes there is one connection, as in the product: messages arrive in the order in which they were sent, or
the connection breaks, what was on the way is lost, and both ends are told after a while. Links are independent of each
other, so messages of different pairs overtake each other freely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anabranch.sim.world import MS, World

NOTICE_US: Final = 200 * MS
"""How long it takes until an end notices that its connection is gone."""

Receive = Callable[[str, Any], None]
Lost = Callable[[str], None]


@dataclass(slots=True)
class _Link:
    """Both directions between two nodes."""

    delay_us: int
    jitter_us: int
    slow: int = 1
    cut: bool = False
    connection: int = 0


@dataclass(frozen=True, slots=True)
class _End:
    receive: Receive
    lost: Lost
    is_up: Callable[[], bool]


class Network:
    """With ``refuses``, who writes to a process that is not there notices it as soon as it would notice that one has
    gone; else it is as if the machine were gone, and nothing comes back."""

    def __init__(self, world: World, *, refuses: bool = False) -> None:
        self._world = world
        self._refuses = refuses
        self._links: dict[tuple[str, str], _Link] = {}
        """By both ends, in either order."""
        self._ends: dict[str, _End] = {}
        self._due: dict[tuple[str, str], int] = {}
        """Per direction, when the last message on the way arrives."""

    def attach(self, node: str, receive: Receive, lost: Lost, is_up: Callable[[], bool] = lambda: True) -> None:
        self._ends[node] = _End(receive, lost, is_up)

    def send(self, sender: str, receiver: str, message: Any) -> None:
        link = self._link(sender, receiver)
        if link.cut:
            return
        now_us, direction = self._world.now_us, (sender, receiver)
        delay_us = (link.delay_us + self._world.random.randrange(link.jitter_us + 1)) * link.slow
        due_us = self._due[direction] = max(now_us + delay_us, self._due.get(direction, 0))
        connection = link.connection

        def arrive() -> None:
            if link.connection != connection or link.cut:
                return
            if self._refuses and not self._ends[receiver].is_up():
                self.break_connection(sender, receiver)
            else:
                self._ends[receiver].receive(sender, message)

        self._world.after(due_us - now_us, arrive)

    # --- faults ----------------------------------------------------------------------------------------------------

    def break_connection(self, one: str, other: str) -> None:
        """What is on the way is lost, and both ends are told. What is said on the next connection comes after that:
        else an end that was started again meanwhile would take the end of the old connection for that of the new."""
        link = self._link(one, other)
        link.connection += 1
        for end, peer in ((one, other), (other, one)):
            self._due[end, peer] = self._world.now_us + NOTICE_US
            self._world.after(NOTICE_US, lambda end=end, peer=peer: self._ends[end].lost(peer))  # type: ignore[misc]

    def cut(self, one: str, other: str) -> None:
        self._link(one, other).cut = True
        self.break_connection(one, other)

    def heal(self, one: str, other: str) -> None:
        link = self._link(one, other)
        link.cut, link.slow = False, 1

    def slow_down(self, one: str, other: str, factor: int) -> None:
        self._link(one, other).slow = factor

    def talk(self, one: str, other: str) -> bool:
        """Whether what one of them says reaches the other, in the usual time."""
        link = self._link(one, other)
        return not link.cut and link.slow == 1

    def leave(self, node: str) -> None:
        """The node's process is gone: all its connections break."""
        for other in sorted(self._ends):
            if other != node:
                self.break_connection(node, other)

    def _link(self, one: str, other: str) -> _Link:
        link = self._links.get((one, other))
        if link is None:
            random = self._world.random
            link = _Link(random.randrange(1, 60) * MS, random.randrange(1, 30) * MS)
            self._links[one, other] = self._links[other, one] = link
        return link

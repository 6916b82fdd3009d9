"""Which pushes share a transaction, and which of them may be answered when: group commit.

One group is under way at a time: at an entry point alone a transaction that is being synced, at one with peers an entry
that waits for a majority. What is decided meanwhile gathers, in the order in which it was decided, and is the next
group. No timer: a push that finds nothing under way is a group by itself, and waits for nobody. Each is answered when
its group is durable, also one that was refused or only repeats something: that rests on those before it. If a group
fails, so does all that was decided after it.

Nodes and the simulator run this code. Must not know what a member is, nor what makes a group durable.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

Member = TypeVar("Member")

GROUP_BYTES: Final = 1 << 20
"""A group that is larger takes nobody else: those in it would wait for each other's bytes, and gain little."""


class _Group(Generic[Member]):
    __slots__ = ("members", "size")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.size = 0


class PushGroups(Generic[Member]):
    """The groups of what shares transactions: one lane, or all lanes of a file."""

    def __init__(self, most: int = GROUP_BYTES) -> None:
        self._most = most
        self._under_way: list[Member] = []
        self._place: int | None = None
        self._gathered: deque[_Group[Member]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether all that was decided is durable."""
        return not self._under_way and not self._gathered

    @property
    def under_way(self) -> list[Member]:
        return self._under_way

    @property
    def gathered(self) -> list[Member]:
        """Those whose group has not begun."""
        return [member for group in self._gathered for member in group.members]

    @property
    def gathered_size(self) -> int:
        return sum([group.size for group in self._gathered])

    def join(self, member: Member, size: int = 0) -> None:
        """The next in the order of decisions."""
        if not self._gathered or self._gathered[-1].size + size > self._most:
            self._gathered.append(_Group())
        group = self._gathered[-1]
        group.members.append(member)
        group.size += size

    def leave(self, member: Member) -> None:
        """It waits no longer. To be called only for one of which nothing is to be stored."""
        for group in self._gathered:
            if member in group.members:
                group.members.remove(member)
        self._gathered = deque([group for group in self._gathered if group.members])

    def begin(self) -> list[Member]:
        """The group to be made durable now; empty while one is under way, or if nobody has come."""
        if self._under_way or not self._gathered:
            return []
        self._under_way = self._gathered.popleft().members
        return self._under_way

    def stands_at(self, place: int) -> None:
        """The place of a shared lane up to which the group under way must be released."""
        self._place = place

    def released(self, through: int) -> list[Member]:
        """A shared lane is released up to here: those of the group under way, if it is durable by that."""
        return self.end() if self._place is not None and self._place <= through else []

    def end(self) -> list[Member]:
        """The group under way is durable: these are answered."""
        members, self._under_way, self._place = self._under_way, [], None
        return members

    def fail(self) -> list[Member]:
        """The group under way is not durable: these are told so. All that came after it was decided on top of it."""
        members = [*self._under_way, *self.gathered]
        self._under_way, self._place = [], None
        self._gathered.clear()
        return members

"""No lane runs ahead: its rows are within the horizon of what every fragment has heard of all origins, or it was the
slowest itself. And no lane is held for what nobody knows.

What waits at a Join or a window waits for the slowest lane, or for a layer that has fallen behind, so the first bounds
it. It cannot be asked of an entry point that has been told nothing since it began: that one must let rows in. And while
a lane has promised nothing at all, nobody can know how far ahead the others are, so none of them may be held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.core.horizon import Slowest, is_slowest, slowest_of
from anabranch.sim.checkers.agreement import Agreement
from anabranch.sim.messages import Pushed
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.sim.role import Disk


class Ahead:
    """Looks at what was newly released by anyone, as ``agreement`` has it: it must be told first. ``sources`` has
    the source of each lane, ``behind`` the fragments that each source reaches, and ``readers`` those that read a source
    at each entry point; a fragment is its replicas. ``origins`` are those of each stream; boxes may hold promises back
    by ``held_back_us``."""

    def __init__(
        self,
        agreement: Agreement,
        sources: Mapping[str, str],
        behind: Mapping[str, Sequence[tuple[str, ...]]],
        readers: Mapping[str, Mapping[str, Sequence[tuple[str, ...]]]],
        origins: Mapping[str, tuple[str, ...]],
        *,
        horizon_us: int,
        held_back_us: int,
    ) -> None:
        self._agreement = agreement
        self._promised = dict.fromkeys(sources, 0)
        self._seen = dict.fromkeys(sources, 0)
        self._sources = sources
        self._behind = behind
        self._readers = readers
        self._fragment_of = {
            name: replicas for fragments in behind.values() for replicas in fragments for name in replicas
        }
        self._reached = dict.fromkeys(self._fragment_of.values(), 0)
        """Per fragment, the furthest that any of its replicas has ever heard of all origins."""
        self._inlets: dict[str, object] = {}
        self._origins = origins
        self._horizon_us = horizon_us
        self._held_back_us = held_back_us
        self._told: dict[str, set[str]] = {}
        """Per node, who told it how far the slowest origin is, since it began."""
        self._unknowing: dict[str, list[Pushed]] = {lane: [] for lane in sources}
        """Per lane, what was taken in where that was not known."""

    def began(self, node: str) -> None:
        self._told.pop(node, None)

    def told(self, node: str, reader: str, slowest: Slowest) -> None:
        if slowest.time_us > 0:
            self._told.setdefault(node, set()).add(reader)

    def entered(self, node: str, origin: str, entry: Pushed) -> None:
        if not self._knows(node, origin):
            self._unknowing[origin].append(entry)

    def _knows(self, node: str, origin: str) -> bool:
        """Whether a replica of each fragment that reads the source there has told how far it is."""
        told = self._told.get(node, set())
        return all(not told.isdisjoint(replicas) for replicas in self._readers[node].get(self._sources[origin], ()))

    def holds_back(self, node: str, origin: str) -> None:
        if not self._knows(node, origin):
            raise Broken(f"{node} holds {origin} back, though nobody has told it how far the others are.")
        released = self._agreement.released
        silent = [lane for lane in self._promised if not any(each.promise_us for each in released.get(lane, ()))]
        if silent:
            raise Broken(f"{node} holds {origin} back, though nothing is promised yet on {', '.join(silent)}.")

    def stored(self, node: str, disk: Disk) -> None:
        fragment = self._fragment_of.get(node)
        if fragment is not None and (disk.lanes or self._inlets.get(node) is not disk.inlets):
            self._inlets[node] = disk.inlets
            sources = {self._sources[lane] for lane in disk.lanes}  # of a part that reads what enters there
            own = [(self._origins[stream], inlet.punctuations) for stream, inlet in disk.inlets.items()]
            own += [(self._origins[source], disk.tapes[source].promises) for source in sources]
            self._reached[fragment] = max(self._reached[fragment], slowest_of(own).time_us)
        for lane in disk.lanes:
            self._look_at(lane)

    def _look_at(self, lane: str) -> None:
        released = self._agreement.released[lane]
        if len(released) == self._seen[lane]:
            return
        slowest_us = min(self._reached[replicas] for replicas in self._behind[self._sources[lane]])
        for entry in released[self._seen[lane] :]:
            latest_us = max((each.stime for each in entry.tuples), default=0)
            jumped = latest_us > slowest_us + self._horizon_us
            was_slowest = is_slowest(self._promised[lane] - self._held_back_us, slowest_us)
            if jumped and not was_slowest and entry not in self._unknowing[lane]:
                raise Broken(f"{lane} has a row at {latest_us}, and the slowest is at {slowest_us}.")
            self._promised[lane] = entry.promise_us
        self._seen[lane] = len(released)

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """Nothing to see: what was stored is looked at."""

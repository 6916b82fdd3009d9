"""Memory is bounded: logs and lanes by their limits, remembered identities by what lies between punctuations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from anabranch.core.identities import Identities, times_of
from anabranch.model.punctuation import Punctuations
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from anabranch.sim.role import Disk

SLACK: Final = 128
"""Identities that may be remembered too long: forgetting waits until it pays, and a batch comes before it."""


UNRELEASED: Final = 16
"""Entries of a lane at most that wait for a majority, or were released by the last event."""


class Memory:
    """``most`` is what a log may hold, and ``lane_limit`` what a lane keeps for an entry point that is away;
    ``origins`` are those of each stream, in the order of their codes."""

    def __init__(self, most: int, lane_limit: int, origins: Mapping[str, tuple[str, ...]]) -> None:
        self._most = most
        self._most_entries = lane_limit + UNRELEASED
        self._origins = origins
        self._largest: dict[tuple[str, str], int] = {}
        self._seen: dict[tuple[str, str], tuple[Identities, Punctuations]] = {}
        self._disks: dict[str, Disk] = {}
        """What was looked at last: what is the same again need not be looked at again."""

    def stored(self, node: str, disk: Disk) -> None:
        last, self._disks[node] = self._disks.get(node), disk
        if last is None or last.tapes is not disk.tapes:
            self._look_at_logs(node, disk)
        if last is None or last.inlets is not disk.inlets:
            self._look_at_inlets(node, disk)

        for origin, copy in disk.lanes.items():
            if len(copy.entries) > self._most_entries:
                raise Broken(f"{node} keeps {len(copy.entries)} entries of {origin}.")

    def _look_at_logs(self, node: str, disk: Disk) -> None:
        for stream, tape in disk.tapes.items():
            if stream not in disk.inlets and tape.held > self._most:
                raise Broken(f"The log of {node} for {stream} holds {tape.held} tuples.")

    def _look_at_inlets(self, node: str, disk: Disk) -> None:
        for stream, inlet in disk.inlets.items():
            remembered, punctuations = self._seen.get((node, stream), (None, None))
            if remembered is inlet.remembered and punctuations is inlet.punctuations:
                continue
            self._seen[node, stream] = inlet.remembered, inlet.punctuations
            wanted = inlet.remembered.at_or_above(times_of(inlet.punctuations, self._origins[stream]))
            largest = self._largest[node, stream] = max(wanted, self._largest.get((node, stream), 0))
            if len(inlet.remembered) > 2 * largest + SLACK:
                raise Broken(f"{node} remembers {len(inlet.remembered)} identities of {stream}; {wanted} still count.")

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """Nothing to see: what was stored is looked at."""

"""What a plain client says to a lane enters it once: its numbers in their order, without a hole, as it said them; and
all that it was told to be accepted is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.sim.messages import Pushed, Row
from anabranch.sim.observer import Broken


def check_entrance(
    origin: str,
    released: Sequence[Pushed],
    said: Mapping[str, Sequence[Sequence[Row]]],
    accepted: Mapping[str, int],
) -> None:
    """``said`` has, per client and number, all that was ever said under it: after a restart it is something else.
    ``accepted`` is, per client, the last number that it was answered for."""
    counted = dict.fromkeys(said, 0)
    for entry in released:
        if entry.sent is None:
            continue
        client, first = entry.sent
        if first != counted[client] + 1:
            raise Broken(f"{origin} has number {first} of {client} after {counted[client]}.")
        rows = sorted((*entry.tuples, *entry.late), key=lambda row: row.tid)
        for number, row in enumerate(rows, start=first):
            if all(row.values != version.values for version in said[client][number - 1]):
                raise Broken(f"{origin} has {row} for number {number} of {client}, who never said so.")
        counted[client] += len(rows)
    for client, number in accepted.items():
        if counted[client] < number:
            raise Broken(f"{client} was told that {origin} has {number} of its rows, and it has {counted[client]}.")

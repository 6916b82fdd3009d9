"""What a lane has decided, as bytes: one entry of a lane that several entry points share.

It holds all that follows from the entry: the rows with their header, those that were late, what is promised after them,
and the state of the lane, from which any entry point can go on. The leader makes these bytes once; they are stored,
sent and stored again as they are. The rows in them are the bodies of segments already: where the entry is released,
they go into the logs without being looked at.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anabranch.core.lane_state import LaneState
from anabranch.errors import StateError
from anabranch.model.names import late_stream
from anabranch.storage.codec import EncodedRows
from anabranch.storage.transaction import Transaction

_SIZES: Final = struct.Struct("<II")
_WORD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """``rows`` and ``late`` are in the form in which a log stores them. A promise of 0 promises nothing."""

    state: LaneState
    rows: tuple[EncodedRows, ...] = ()
    late: tuple[EncodedRows, ...] = ()
    promise_us: int = 0
    late_promise_us: int = 0

    def to_bytes(self) -> bytes:
        """How long head and state are, both, and the bodies: each begins at a whole word, as Arrow wants it."""
        facts = [self.promise_us, self.late_promise_us, _facts(self.rows), _facts(self.late)]
        head = str(facts).encode()  # numbers only: JSON, too
        state = self.state.to_bytes()
        parts: list[bytes | memoryview] = [_SIZES.pack(len(head), len(state)), head, state]
        parts.append(b" " * (-(len(head) + len(state)) % _WORD))
        for each in (*self.rows, *self.late):
            parts += (memoryview(each.body), bytes(-len(each.body) % _WORD))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes, origin: str) -> Decided:
        """``origin`` is that of the lane."""
        try:
            head_size, state_size = _SIZES.unpack_from(data)
            middle = _SIZES.size + head_size
            promise_us, late_promise_us, rows, late = json.loads(data[_SIZES.size : middle])
            end = middle + state_size
            state = LaneState.from_bytes(data[middle:end])
            bodies = _bodies(memoryview(data), end + -end % _WORD, [*rows, *late], origin)
            found = tuple(bodies)
        except (ValueError, TypeError, struct.error) as error:
            raise StateError(
                f"An entry of a lane cannot be read: {error}.",
                remedy="The state directory is damaged, or a peer runs another version.",
            ) from error
        return cls(
            state=state,
            rows=found[: len(rows)],
            late=found[len(rows) :],
            promise_us=promise_us,
            late_promise_us=late_promise_us,
        )

    def without_rows(self) -> Decided:
        """What is left of it when nobody needs its rows any more."""
        return Decided(state=self.state, promise_us=self.promise_us, late_promise_us=self.late_promise_us)


def append(transaction: Transaction, source: str, origin: str, decided: Decided, *, now_us: int) -> None:
    """Its rows and promises, to the logs of its source."""
    for log, rows, promise_us in (
        (late_stream(source), decided.late, decided.late_promise_us),
        (source, decided.rows, decided.promise_us),
    ):
        if rows or promise_us:
            promised = {origin: promise_us} if promise_us else {}
            transaction.append_encoded(log, rows, promised, now_us=now_us)


def _facts(rows: Sequence[EncodedRows]) -> list[list[int]]:
    return [[each.count, len(each.body), each.lowest_us, each.highest_us] for each in rows]


def _bodies(data: memoryview, at: int, facts: Sequence[Sequence[Any]], origin: str) -> Iterator[EncodedRows]:
    for count, size, lowest_us, highest_us in facts:
        if at + size > len(data):
            raise ValueError(f"it has {len(data)} bytes, and rows end at {at + size}")
        yield EncodedRows(data[at : at + size], count, origin, lowest_us, highest_us)
        at += size + -size % _WORD

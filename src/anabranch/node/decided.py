"""What a lane has decided, as bytes: one entry of a lane that several entry points share.

It holds all that follows from the entry: the rows with their header, those that were late, what is promised after them,
and the state of the lane, from which any entry point can go on. The leader makes these bytes once; they are stored,
sent and stored again as they are, and are taken apart only where the entry is released into the logs.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.core.lane_state import LaneState
from anabranch.errors import StateError
from anabranch.storage import codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """``rows`` and ``late`` are in the form in which a log stores them. A promise of 0 promises nothing."""

    state: LaneState
    rows: pa.RecordBatch | None = None
    late: pa.RecordBatch | None = None
    promise_us: int = 0
    late_promise_us: int = 0

    def to_bytes(self) -> bytes:
        rows, late = (b"" if each is None else codec.encode_rows(each) for each in (self.rows, self.late))
        head = json.dumps(
            {
                "promise_us": self.promise_us,
                "late_promise_us": self.late_promise_us,
                "rows": len(rows),
                "late": len(late),
                "state": self.state.to_bytes().decode(),
            }
        ).encode()
        padding = -len(head) % 8  # Arrow reads whole words where they are aligned
        return b"".join((struct.pack("<II", len(head) + padding, 0), head, b" " * padding, rows, late))

    @classmethod
    def from_bytes(cls, data: bytes, schema: pa.Schema) -> Decided:
        """``schema`` is that of stored rows."""
        head, at = _head(data)
        middle = at + head["rows"]
        body = memoryview(data)
        return cls(
            state=LaneState.from_bytes(head["state"].encode()),
            rows=codec.decode_rows(pa.py_buffer(body[at:middle]), schema) if head["rows"] else None,
            late=codec.decode_rows(pa.py_buffer(body[middle : middle + head["late"]]), schema)
            if head["late"]
            else None,
            promise_us=head["promise_us"],
            late_promise_us=head["late_promise_us"],
        )

    def without_rows(self) -> Decided:
        """What is left of it when nobody needs its rows any more."""
        return Decided(state=self.state, promise_us=self.promise_us, late_promise_us=self.late_promise_us)


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    try:
        (size, _) = struct.unpack_from("<II", data)
        return json.loads(data[8 : 8 + size]), 8 + size
    except (ValueError, struct.error) as error:
        raise StateError(
            f"An entry of a lane cannot be read: {error}.",
            remedy="The state directory is damaged, or a peer runs another version.",
        ) from error

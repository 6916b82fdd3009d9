"""What a client said to a lane: decided, and waiting until all that the decision rests on is durable.

Those that share a transaction become one ``Decided`` for each lane: their rows get their header together and are
encoded once.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch import limits
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    AppendBoundary,
    AppendClose,
    AppendRows,
    Refuse,
)
from anabranch.core.lane_state import LaneState
from anabranch.node.decided import Decided
from anabranch.storage import codec

ROW_BYTES: Final = 20
"""What the header adds to a row."""

SMALL_BYTES: Final = 64 << 10
"""So many bytes need not be counted exactly."""


class Pending:
    """``state`` is that of the lane after it. One thread waits for it, at most."""

    __slots__ = ("_bell", "actions", "appended", "failure", "group", "lane", "reply", "rows", "size", "state", "stores")

    def __init__(self, lane: str, state: LaneState, actions: Sequence[Action], rows: pa.RecordBatch | None) -> None:
        self.lane: Final = lane
        self.state: Final = state
        self.actions: Final = actions
        self.appended: AppendRows | None = None
        self.reply: Answer | AnswerRegistration | Refuse | None = None
        self.stores = False
        """Whether there is more to store of it than that it was said."""
        for action in actions:  # of every push: one loop instead of three
            if isinstance(action, Answer | AnswerRegistration | Refuse):
                self.reply = action
            else:
                self.stores = True
                if isinstance(action, AppendRows):
                    self.appended = action
        self.rows: Final = rows if self.appended is not None else None
        self.size: Final = 0 if self.rows is None else _size(self.rows)
        self.group: Sequence[Pending] = ()
        """If it is the first of a group that is under way: the whole group, which its thread stores."""
        self.failure: BaseException | None = None
        self._bell = threading.Lock()
        self._bell.acquire()

    def ring(self) -> None:
        """Whoever waits for it looks again. Once between two waits."""
        self._bell.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Until the bell rings; False if it did not."""
        return self._bell.acquire(timeout=timeout_s)

    def fail(self, failure: BaseException) -> None:
        """Several may wait for the same: each raises an error of its own, if it can be copied."""
        try:
            self.failure = copy.copy(failure)
        except TypeError:  # it is made of something else than it says
            self.failure = failure

    def answer(self) -> Answer | AnswerRegistration | None:
        """What the client is told, when it may be told."""
        if self.failure is not None:
            raise self.failure
        if isinstance(self.reply, Refuse):
            raise self.reply.error()
        return self.reply


def _size(rows: pa.RecordBatch) -> int:
    """What the rows take with their header, roughly if it is little: ``nbytes`` takes thirty times as long as the sum
    of the buffers, in which a buffer of several columns counts once."""
    size: int = rows.get_total_buffer_size()
    if size * rows.num_columns > SMALL_BYTES:
        size = rows.nbytes
    return size + ROW_BYTES * len(rows)


def refuse_too_large(pending: Pending, schema: pa.Schema) -> None:
    """A row that fits into no segment is refused alone, before it shares a transaction."""
    if pending.size > limits.SEGMENT_BYTES:
        together([pending], schema, "", 0)


def together(group: Sequence[Pending], schema: pa.Schema, origin: str, code: int) -> Decided:
    """What the decisions of a group about one lane come to. ``schema`` is that of stored rows."""
    promise_us = late_promise_us = 0
    appended: list[tuple[AppendRows, pa.RecordBatch]] = []
    for pending in group:
        for action in pending.actions:
            match action:
                case AppendRows():
                    assert pending.rows is not None
                    appended.append((action, pending.rows.slice(action.skip) if action.skip else pending.rows))
                    promise_us = max(promise_us, action.punctuation_us)
                case AppendBoundary(punctuation_us=time_us) | AppendClose(punctuation_us=time_us):
                    promise_us, late_promise_us = max(promise_us, time_us), time_us
                case _:
                    pass
    rows, late = _encoded(appended, schema, origin, code) if appended else ((), ())
    return Decided(state=group[-1].state, rows=rows, late=late, promise_us=promise_us, late_promise_us=late_promise_us)


def _encoded(
    appended: Sequence[tuple[AppendRows, pa.RecordBatch]], schema: pa.Schema, origin: str, code: int
) -> tuple[tuple[codec.EncodedRows, ...], tuple[codec.EncodedRows, ...]]:
    """The rows in time and the late ones."""
    actions = [action for action, _ in appended]
    names = schema.names[len(codec.HEADER_FIELDS) :]
    whole = codec.with_header(
        _one_batch([rows for _, rows in appended], names),
        schema,
        numbers=_one_array([action.numbers for action in actions]),
        stamps=_one_array([action.stamps for action in actions]),
        code=code,
    )
    late = _one_array([action.late for action in actions])
    if not late.any():
        return codec.encoded(whole, origin), ()
    punctual, too_late = (whole.filter(pa.array(which)) for which in (~late, late))
    return codec.encoded(punctual, origin), codec.encoded(too_late, origin)


def _one_batch(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.RecordBatch:
    """With these columns, in whatever order each batch has them."""
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(name) for batch in batches]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _one_array(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

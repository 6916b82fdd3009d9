"""The journals of this node, as Spark's stages read them, and the way of their batches into the logs.

A range goes out as it is stored where Spark needs all of it: the bytes of a segment are an Arrow message already, and
nothing of it is looked at. Where a stage needs few of the columns or few of the rows, the rest is cut away here. Either
way a range ends with its control row: the smallest punctuation at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from anabranch import failpoints, limits
from anabranch.errors import StreamNotFound
from anabranch.model.punctuation import smallest
from anabranch.model.selection import ALL_ROWS, Selection
from anabranch.node.selecting import selected
from anabranch.node.stages import StageRunner
from anabranch.node.streams import Streams
from anabranch.storage.codec import encode_rows, stored_schema
from anabranch.storage.log import Log, Segment
from anabranch.transport.journals import Body, Control, JournalRequest, MadeBatch, Rows


class Journals:
    """What the Spark of this node may ask. ``runners`` may grow; ``origins`` says whose tuples a journal can hold."""

    def __init__(
        self, streams: Streams, runners: Mapping[str, StageRunner], origins: Callable[[str], frozenset[str]]
    ) -> None:
        self._streams: Final = streams
        self._runners: Final = runners
        self._origins: Final = origins

    def latest(self, stream: str, stage: str, scan: int, after_seq: int, max_rows: int) -> int:
        runner = self._runner(stage)
        if stream not in runner.stage.inputs:
            raise StreamNotFound(
                f"No stage {stage!r} of this node reads {stream!r}.", remedy="Only Spark sends this request."
            )
        if runner.punctuation_is_pending():
            failpoints.reach("stage.punctuation_pending")
        return runner.latest(stream, scan, after_seq, max_rows)

    def ranges(self, stream: str, after_seq: int, to_seq: int, at_most: int) -> list[int]:
        return cuts(self._streams.find(stream)[1], after_seq, to_seq, at_most)

    def is_at_hand(self, stream: str, after_seq: int, to_seq: int) -> bool:
        return self._streams.find(stream)[1].is_at_hand(after_seq, to_seq)

    def read(self, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        return read_range(self._streams.find(request.stream)[1], self._origins(request.stream), request)

    def wait_room(self, stage: str, life: int, seconds: float) -> bool:
        return self._runner(stage).wait_room(life, seconds)

    def log(self, batch: MadeBatch) -> None:
        self._runner(batch.stage).take(batch)

    def _runner(self, stage: str) -> StageRunner:
        runner = self._runners.get(stage)
        if runner is None:
            raise StreamNotFound(f"This node runs no stage {stage!r}.", remedy="Only Spark sends this request.")
        return runner


def cuts(log: Log, after_seq: int, to_seq: int, at_most: int) -> list[int]:
    """Ranges with about as many rows each; one, if they are few: a task costs more than a few thousand rows."""
    if log.rows_held() <= limits.RANGE_ROWS:  # no more in the range, without looking
        return [after_seq, to_seq] if to_seq > after_seq else [after_seq]
    rows = log.rows_between(after_seq, to_seq)
    count = max(1, min(at_most, to_seq - after_seq, -(-rows // limits.RANGE_ROWS)))
    found = [after_seq]
    for part in range(1, count):
        cut = log.latest_seq(after_seq, rows * part // count)
        if found[-1] < cut < to_seq:
            found.append(cut)
    return [*found, to_seq] if to_seq > after_seq else found


def read_range(
    log: Log, origins: frozenset[str], request: JournalRequest
) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
    """A range, and the schema of its rows."""
    stored = stored_schema(log.spec.schema)
    wanted = list(request.columns)
    unknown = [name for name in wanted if name not in stored.names]
    if unknown:
        raise StreamNotFound(
            f"Stream {log.name!r} has no column {unknown[0]!r}.", remedy="Only Spark sends this request."
        )
    if all(name in wanted for name in log.spec.schema.names):  # a header more than is wanted costs less than a copy
        wanted = stored.names
    return pa.schema([stored.field(name) for name in wanted]), _pieces(log, origins, request, wanted)


def _pieces(
    log: Log, origins: frozenset[str], request: JournalRequest, columns: Sequence[str]
) -> Generator[Rows | Control, None, None]:
    punctuations: Mapping[str, int] = {}
    for segment in log.read(request.after_seq, request.to_seq):
        punctuations = segment.punctuations
        message = _message(segment, request.rows, columns)
        if message is not None:
            yield Rows(message)
    control = smallest(punctuations, origins)
    if control > 0:
        yield Control(control)


def _message(segment: Segment, selection: Selection, columns: Sequence[str]) -> Body | None:
    """What is needed of a segment, if anything is; all of it as it is stored."""
    if segment.body is None:
        return None
    whole = list(columns) == segment.schema.names
    if whole and selection == ALL_ROWS:
        return segment.body
    assert segment.rows is not None
    rows = selected(segment.rows, selection)
    if whole and rows.num_rows == segment.rows.num_rows:
        return segment.body
    return encode_rows(rows.select(columns)) if rows.num_rows else None

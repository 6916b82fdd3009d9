"""A stage of a fragment as one streaming DataFrame.

The diagram says what is computed, ``query.graph.stages`` where it is cut; this module walks from the root of a stage
down to the journals it reads and lets each box family build its part. Spark analyses every step at once, so what Spark
alone can tell (a type, an unknown function) is reported with the box that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from anabranch.columns import arrow_schema
from anabranch.engine.exact import Scales
from anabranch.engine.joins import apply_join
from anabranch.engine.keepers import apply_dedup, apply_wsort
from anabranch.engine.lookups import Tables, apply_lookup
from anabranch.engine.ordered_joins import apply_latest, apply_resample
from anabranch.engine.packs import as_stream, gather
from anabranch.engine.row_windows import count_windows, cross_section, early_sessions, early_time_windows, slide, tumble
from anabranch.engine.stateless import ROW_HEADER, apart, apply_step, apply_union
from anabranch.engine.targets import Chain, tagged
from anabranch.engine.watermark import punctuated
from anabranch.engine.windows import apply_aggregate, apply_session
from anabranch.errors import ConfigError, Problem, QueryError
from anabranch.limits import PLAN_STEPS
from anabranch.query import floats
from anabranch.query.boxes import (
    Aggregate,
    Arrow,
    Box,
    Dedup,
    Diagram,
    Drop,
    Filter,
    Join,
    Latest,
    Lookup,
    Map,
    Python,
    Resample,
    Session,
    Slide,
    Source,
    Step,
    Summing,
    Tumble,
    Union,
    WSort,
    XSection,
)
from anabranch.query.graph import Stage, Target, all_origins, is_stateful, read_as, stream_of, union_hashes

Journals = Callable[[str], DataFrame]
"""Gives the raw journal of a stream: the mark, if the stage waits, the row header, and the data columns."""


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """What one Spark query runs, and the data columns of each stream that comes out of it."""

    stage: Stage
    frame: DataFrame
    chains: tuple[Chain, ...]
    schemas: Mapping[str, pa.Schema]
    late_rows: Accumulator[int] | None = None
    """What came too late for its box, since it was compiled; a batch that is handed over has been counted. None of a
    box for which nothing can be late."""


def compile_stage(diagram: Diagram, stage: Stage, journals: Journals, tables: Tables | None = None) -> CompiledStage:
    """``tables`` are what its Lookups read; without them there are no rows to find."""
    return _Compiler(diagram, stage, journals, tables or Tables()).compile()


class _Compiler:
    def __init__(self, diagram: Diagram, stage: Stage, journals: Journals, tables: Tables) -> None:
        self._diagram = diagram
        self._stage = stage
        self._journals = journals
        self._tables = tables
        self._origins = all_origins(diagram)
        self._boxes = {box.name: box for box in diagram.boxes}
        self._root = self._boxes[stage.root]
        self._waits = is_stateful(diagram, stage)
        self._late_rows: Accumulator[int] | None = None
        self._steps: dict[str, int] = {}
        """How many steps lead to one of them without another box between."""
        self._scans = 0

    def compile(self) -> CompiledStage:
        chains = tuple(Chain(target.stream, tuple(self._steps_to(target))) for target in self._stage.targets)
        root = self._build_root()
        frame = self._hung(root, chains)
        if not self._waits and self._scans > 1:
            frame = gather(frame)
        stream = frame if frame.isStreaming else as_stream(frame)
        return CompiledStage(self._stage, stream, chains, self._schemas(root, chains), self._late_rows)

    def _scales(self, box: Summing) -> Scales:
        return floats.exact_scales(self._diagram).get(box.name, {})

    def _steps_to(self, target: Target) -> Iterator[tuple[Step, int]]:
        for name, port in target.path:
            box = self._boxes[name]
            if isinstance(box, Step):
                yield box, port

    def _hung(self, root: DataFrame, chains: tuple[Chain, ...]) -> DataFrame:
        """The targets of the stage as one frame."""
        return (
            self._chain_frame(root, chains[0])
            if len(chains) == 1
            else tagged(root, chains, self._origins, self._tables)
        )

    def _schemas(self, root: DataFrame, chains: tuple[Chain, ...]) -> dict[str, pa.Schema]:
        return {chain.stream: self._schema(chain, self._chain_frame(root, chain)) for chain in chains}

    def _chain_frame(self, root: DataFrame, chain: Chain) -> DataFrame:
        """Analyses a chain box by box, so that an error names its box."""
        frame = root
        for count, (box, port) in enumerate(chain.steps, start=1):
            with self._naming(box):
                frame = self._step(frame, box, port)
            frame = apart(frame) if count % PLAN_STEPS == 0 else frame
        return frame

    def _schema(self, chain: Chain, frame: DataFrame) -> pa.Schema:
        """What comes out of a chain."""
        last = chain.steps[-1][0] if chain.steps else self._root
        fields = [field for field in frame.schema.fields if field.name not in ROW_HEADER]
        with self._naming(last):
            return arrow_schema((field.name, field.dataType.simpleString()) for field in fields)

    def _build_root(self) -> DataFrame:
        box = self._root
        if not self._waits:
            return self._arrow(Arrow(self._stage.root, self._stage.port))
        with self._naming(box):
            match box:
                case Aggregate(rows=int()):
                    return count_windows(self._arrow(box.input), box, self._origins, self._scales(box))
                case Aggregate(emit_rows=int()):
                    return early_time_windows(self._arrow(box.input), box, self._origins, self._scales(box))
                case Aggregate():
                    return apply_aggregate(self._arrow(box.input), box, self._origins, self._scales(box))
                case Join():
                    return apply_join(self._arrow(box.left), self._arrow(box.right), box, self._origins)
                case Session(emit_rows=int()):
                    return early_sessions(self._arrow(box.input), box, self._origins, self._scales(box))
                case Session():
                    return apply_session(self._arrow(box.input), box, self._origins, self._scales(box))
                case Tumble():
                    return tumble(self._arrow(box.input), box, self._origins, self._scales(box))
                case Slide():
                    return slide(self._arrow(box.input), box, self._origins, self._scales(box))
                case XSection():
                    return cross_section(self._arrow(box.input), box, self._origins, self._scales(box))
                case Latest():
                    return apply_latest(self._arrow(box.left), self._arrow(box.right), box, self._origins)
                case Resample():
                    return apply_resample(self._arrow(box.left), self._arrow(box.right), box, self._origins)
                case Dedup():
                    return apply_dedup(self._arrow(box.input), box)
                case WSort():
                    return self._sorted(box)
                case Source() | Filter() | Map() | Python() | Drop() | Lookup() | Union():
                    raise TypeError(f"{box.name} keeps no state")
                case _:
                    assert_never(box)

    def _sorted(self, box: WSort) -> DataFrame:
        """With an accumulator of Spark, which is the only way from a worker to the node that is no stream."""
        frame = self._arrow(box.input)
        self._late_rows = frame.sparkSession.sparkContext.accumulator(0)
        return apply_wsort(frame, box, self._stage.port, self._late_rows)

    def _arrow(self, arrow: Arrow) -> DataFrame:
        """The tuples of an arrow below the root: inlined down to the streams that this stage reads."""
        box = self._boxes[arrow.box]
        is_read = read_as(self._diagram, self._stage, arrow) is not None
        with self._naming(box):
            match box:
                case Filter() | Map() | Python() | Drop() | Lookup() if not is_read:
                    return self._parted(box, arrow.port)
                case Union() if not is_read:
                    frames = [self._arrow(below) for below in box.inputs]
                    self._check_same_types(box, frames)
                    hashed = union_hashes(self._diagram, box)
                    return apply_union(frames, box, self._origins, hashed=hashed)
                case _:
                    return self._journal(stream_of(self._diagram, arrow))

    def _parted(self, box: Step, port: int) -> DataFrame:
        """The box's frame, with a border in the plan after every so many steps."""
        frame = self._step(self._arrow(box.input), box, port)
        count = self._steps[box.name] = self._steps.get(box.input.box, 0) + 1
        return apart(frame) if count % PLAN_STEPS == 0 else frame

    def _step(self, frame: DataFrame, box: Step, port: int) -> DataFrame:
        if isinstance(box, Lookup):
            return apply_lookup(frame, box, self._origins, self._tables)
        return apply_step(frame, box, port, self._origins)

    def _journal(self, stream: str) -> DataFrame:
        """One scan of a stream: Spark makes a source of its own of each place that reads it."""
        self._scans += 1
        return punctuated(self._journals(stream))

    def _check_same_types(self, box: Union, frames: list[DataFrame]) -> None:
        """Spark would cast silently; two inputs of a Union must have the same columns as they are."""
        first, *others = [[(field.name, field.dataType.simpleString()) for field in frame.schema] for frame in frames]
        for number, columns in enumerate(others, start=1):
            if columns != first:
                message = f"input {number} has columns {columns[3:]}, input 0 has {first[3:]}."
                problem = Problem(code="union-type-clash", box=box.name, message=message, remedy="Cast with a Map.")
                raise QueryError(self._diagram.name, [problem])

    @contextmanager
    def _naming(self, box: Box) -> Iterator[None]:
        """Spark's complaint about this box, told as a problem of the query."""
        try:
            yield
        except (AnalysisException, ParseException, ConfigError) as error:
            text = str(error).split("\n")[0].split(" SQLSTATE")[0]
            raise QueryError(self._diagram.name, [Problem(code="spark", box=box.name, message=text)]) from error

"""What Spark makes of a query, without running it: the physical plan of each stage.

Compiles as a node does, against journals that nobody serves: Spark reads them only when a query runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from anabranch.columns import arrow_schema
from anabranch.engine.compiler import CompiledStage, compile_stage
from anabranch.engine.connector import NOWHERE
from anabranch.engine.run import journal_frame
from anabranch.engine.session import SparkSettings, open_session
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage, is_stateful, stages
from anabranch.query.needs import needs


def stage_plans(diagram: Diagram, settings: SparkSettings | None = None) -> Iterator[tuple[str, str]]:
    """Each stage's name and plan, in the order of flow. Starts Spark if the process has none."""
    session = open_session(settings or SparkSettings())
    for stage, compiled in _compiled(session, diagram, stages(diagram), {}):
        yield stage.name, plan_text(compiled)


def stream_schemas(session: SparkSession, diagram: Diagram, all_stages: Iterable[Stage]) -> dict[str, pa.Schema]:
    """The data columns of every stream that the stages of a query write, as Spark types them."""
    schemas: dict[str, pa.Schema] = {}
    for _ in _compiled(session, diagram, all_stages, schemas):
        pass
    return schemas


def _compiled(
    session: SparkSession, diagram: Diagram, all_stages: Iterable[Stage], schemas: dict[str, pa.Schema]
) -> Iterator[tuple[Stage, CompiledStage]]:
    """Each stage, in the order of flow; ``schemas`` learns the streams on the way."""
    for source in diagram.sources:
        schemas[source.name] = arrow_schema((column.name, column.type or "") for column in source.schema)
    for stage in all_stages:

        def journal(stream: str, stage: Stage = stage) -> DataFrame:
            return journal_frame(
                session,
                schemas[stream],
                journals=NOWHERE,
                stream=stream,
                stage=stage.name,
                waits=is_stateful(diagram, stage),
                wanted=needs(diagram, stage)[stream],
            )

        compiled = compile_stage(diagram, stage, journal)
        schemas.update(compiled.schemas)
        yield stage, compiled


def plan_text(compiled: CompiledStage) -> str:
    """The physical plan of a stage, as Spark prints it."""
    frame = compiled.frame
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")).strip() + "\n"

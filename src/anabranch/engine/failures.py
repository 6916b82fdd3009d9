"""Which box met a row that cannot be computed.

Spark says which piece of SQL it was; the diagram knows whose it is. Spark would also print pages of Java on standard
error at every try: a failure is told once, by whoever runs the node.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from anabranch.query.boxes import Aggregate, Box, Diagram, Filter, Join, Map
from anabranch.query.graph import Stage, boxes_of

for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True


def failed_where(error: Exception, diagram: Diagram, stage: Stage) -> str:
    """`` in box b at `10 / x` ``, if Spark can tell; several boxes may have the same SQL."""
    sql = _failed_sql(error)
    names = [box.name for box in boxes_of(diagram, stage) if sql and any(sql in text for text in _texts(box))]
    return f" in box {' or '.join(names)} at `{sql}`" if names else ""


def _failed_sql(error: Exception) -> str:
    with suppress(Py4JError, OSError):  # a JVM that is gone cannot be asked
        contexts = error.getQueryContext() if isinstance(error, PySparkException) else []
        return str(contexts[0].fragment()) if contexts else ""
    return ""


def _texts(box: Box) -> tuple[str, ...]:
    match box:
        case Filter():
            return box.predicates
        case Map() | Aggregate():
            return (box.columns,)
        case Join():
            return (box.on,)
        case _:
            return ()

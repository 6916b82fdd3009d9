"""What Spark's errors mean: which box met a row that cannot be computed, what an executor is missing, and in short.

Spark says which piece of SQL it was; the diagram knows whose it is. Spark would also print pages of Java on standard
error at every try: a failure is told once, by whoever runs the node.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException, UnknownException
from pyspark.logger import PySparkLogger
from pyspark.sql.streaming import StreamingQuery

from anabranch.engine import jvm
from anabranch.errors import EngineError
from anabranch.query.boxes import Diagram
from anabranch.query.catalog import sql_of
from anabranch.query.graph import Stage, boxes_of

for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True
logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what a batch raises is kept, and a lost JVM is told once
logging.getLogger().addFilter(lambda record: record.module != "java_gateway")  # of py4j, which also uses the root

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+")

_MISSING: Final[Mapping[str, str]] = {
    "No module named 'anabranch'": (
        "Install anabranch, with all it needs, in the Python of the executors, in the same version as here."
    ),
    "PYTHON_VERSION_MISMATCH": "Give the executors the same minor version of Python as the node.",
    "Cannot run program": (
        "Executors run the Python that the node's PYSPARK_PYTHON names: it must exist at that path on every machine."
    ),
    "No node answers at": (
        "Executors read from the node: give --host and --port an address that every machine of the cluster can reach."
    ),
}
"""What an executor says when its machine is not prepared, and what to do."""

_OTHER_OPERATOR: Final = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
"""Spark's word for state that another operator has written. A state directory is of one query: only the version that
made the plan can be another."""

_OLDER: Final = (
    "The state of this box was written by an older version of Anabranch, in a format that this version cannot read."
)
_OTHER_DIRECTORY: Final = "Run the query on a new state directory, or with the version that wrote this one."


def remedy(cause: str) -> str:
    """What to do about the cause of a failure, if it lies with the executors or in what is kept."""
    if _OTHER_OPERATOR in cause:
        return _OTHER_DIRECTORY
    return next((remedy for said, remedy in _MISSING.items() if said in cause), "")


def failed_where(error: Exception, diagram: Diagram, stage: Stage) -> str:
    """`` in box b at `10 / x` ``, if Spark can tell; several boxes may have the same SQL."""
    sql = _failed_sql(error)
    names = [box.name for box in boxes_of(diagram, stage) if sql and any(sql in text for text in sql_of(box))]
    return f" in box {' or '.join(names)} at `{sql}`" if names else ""


def _failed_sql(error: Exception) -> str:
    with suppress(Py4JError, OSError):  # a JVM that is gone cannot be asked
        contexts = error.getQueryContext() if isinstance(error, PySparkException) else []
        return str(contexts[0].fragment()) if contexts else ""
    return ""


class JavaError(Exception):
    """One that PySpark has no class for. ``root_cause`` tells what it says."""

    def __init__(self, java_exception: Any) -> None:
        super().__init__(java_exception)
        self.java_exception: Final = java_exception


def ended_by(query: StreamingQuery) -> Exception | None:
    """Why a query ended: what PySpark makes of the last of a chain of Java exceptions, where the SQL that failed is."""
    error: Exception | None = query.exception()
    while isinstance(error, CapturedException) and error._cause is not None:
        error = error._cause
    return JavaError(query._jsq.exception().get()) if isinstance(error, UnknownException) else error


def root_cause(error: Exception) -> str:
    """What went wrong at the bottom of a chain of Java exceptions; they end in the one that tells it."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    with suppress(Py4JError, OSError):  # a JVM that is gone cannot be asked
        while java.getCause() is not None:
            java = java.getCause()
        ours = str(java.getClass().getName()).startswith("anabranch.")  # the connector speaks in sentences
        return str(java.getMessage() if ours else java.toString())
    return "Spark is not responding."


@contextmanager
def told_in_short(what: str) -> Iterator[None]:
    """What Spark raises while it does ``what``, in words that outlive the session: its own need the JVM."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        cause = root_cause(error)
        raise EngineError(f"Spark could not {what}: {in_short(cause)}", remedy=remedy(cause)) from error


def refuse_if_gone() -> None:
    """EngineError if the JVM is gone, so that its silence is not taken for a refusal. Asked after a failed call."""
    process = jvm.process()
    if process is not None and jvm.is_going(process):
        raise EngineError("Spark is not responding.")


def in_short(text: str, limit: int = 600) -> str:
    """The message of a Spark error without its Java, and without the way that Python took to it."""
    if _OTHER_OPERATOR in text:
        return _OLDER
    text = _TRACEBACK.sub("", text)
    before_java = text.split("\n\tat ")[0].split("JVM stacktrace:")[0].split(" SQLSTATE")[0]
    before_java = before_java.split(" If necessary set ")[0]  # Spark's advice to change a setting that we require
    return " ".join(before_java.split())[:limit]

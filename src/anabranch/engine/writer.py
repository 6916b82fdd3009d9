"""A place that Spark's batch writers append to, and that can be read back to see what of a batch is there.

Appending is not atomic for most formats: after a crash a batch may be there in part. So the tuples keep their ids, and
whoever is in doubt asks which ids of a range are there. Knows nothing of logs or of what was intended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.engine.failures import in_short, refuse_if_gone, root_cause
from anabranch.errors import ConfigError, EngineError
from anabranch.model.header import ID

POOL: Final = "writers"


class SparkTarget:
    """One target of Spark's batch writers. For one thread. ``session`` gives the session of now."""

    def __init__(self, session: Callable[[], SparkSession], format: str, options: Mapping[str, str]) -> None:
        self._session = session
        self._format = format
        self._options = dict(options)

    def append(self, tuples: pa.Table) -> None:
        try:
            session = self._session()
            session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
            frame = session.createDataFrame(tuples)
            frame.write.format(self._format).options(**self._options).mode("append").save()
        except Exception as error:  # py4j and pyspark raise many kinds here
            raise self._failed("write to", error) from error

    def ids(self, first_id: int, last_id: int) -> pa.Array:
        """The ids of this range that are there."""
        try:
            found = self._read().select(ID).where(F.col(ID).between(first_id, last_id)).toArrow()
        except Exception as error:
            raise self._failed("read from", error) from error
        return found.column(0).combine_chunks().cast(pa.int64())

    def is_empty(self, schema: pa.Schema) -> bool:
        """Whether nothing is there yet; makes it if it is not there at all. ConfigError if it cannot be read back."""
        try:
            frame = self._read()
        except Exception:  # most likely it is not there yet
            self.append(schema.empty_table())
            frame = self._read_back()
        try:
            return frame.limit(1).count() == 0
        except Exception as error:
            raise self._failed("read from", error) from error

    def _read_back(self) -> DataFrame:
        try:
            return self._read()
        except Exception as error:
            refuse_if_gone()
            raise ConfigError(
                f"Spark can write to format {self._format!r} with these options, but not read it back: "
                f"{in_short(root_cause(error), 200)}",
                remedy="After a crash it would be unknown what was written. Accept that with guarantee=at-least-once.",
            ) from error

    def _read(self) -> DataFrame:
        frame = self._session().read.format(self._format).options(**self._options).load()
        if ID not in frame.columns:
            raise ConfigError(
                f"The target of format {self._format!r} has no column {ID}.", remedy="Give a new table or path."
            )
        return frame

    def _failed(self, doing: str, error: Exception) -> EngineError:
        return EngineError(f"Spark could not {doing} {self._format}: {in_short(root_cause(error))}")

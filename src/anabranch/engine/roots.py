"""The root of a stage, as Spark computes it: a stream, and perhaps something still to be done with each batch of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

Finish = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Root:
    """``finish`` makes the tuples of the rows of one batch, where a stream of Spark cannot do it."""

    frame: DataFrame
    finish: Finish | None = None

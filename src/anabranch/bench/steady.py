"""A steady flow for the benchmarks of failures: the query, its rows, and the thread that makes them.

Every second row passes the filter, so that each row is known to have one result or none. A row carries the time at
which it was made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Self

import numpy as np
import pyarrow as pa

from anabranch.bench.arrivals import now_us
from anabranch.engine.session import JAVA_OPTIONS
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query

SOURCE: Final = "events"
OUTPUT: Final = "out"

PUSHES_S: Final = 10
PUSH_ROWS: Final = 10
ROWS_S: Final = PUSHES_S * PUSH_ROWS

MASTER: Final = "local[1]"
CONF: Final[Mapping[str, str]] = {
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1",
}
"""The same for all that is compared. Without the optimising compiler a JVM starts sooner, which shortens restarts, and
soon does what it does at the same pace: with it, a run would measure for minutes how it warms up."""

Push = Callable[[pa.RecordBatch], None]
Make = Callable[[int, int, int], pa.RecordBatch]
"""The number of the first row, how many, and the time at which they are made."""


def query() -> Diagram:
    made = Query("steady")
    events = made.source(SOURCE, "n bigint, at timestamp", time="at")
    made.output(OUTPUT, events.filter("n % 2 = 0", name="even"))
    return made.checked()


def rows(first: int, count: int, made_us: int) -> pa.RecordBatch:
    times = pa.array(np.full(count, made_us)).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"n": pa.array(np.arange(first, first + count)), "at": times})


def expected(made: int) -> np.ndarray:
    """The numbers of the rows, of so many, that have a result."""
    return np.arange(0, made, 2)


def results(table: pa.Table | pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Of rows of the output: their numbers, and when they were made. Spark's files have times in nanoseconds."""
    at = table.column("at")
    made_us = at.cast(pa.timestamp("us", at.type.tz)).cast(pa.int64())
    return np.asarray(table.column("n")), np.asarray(made_us)


class Flow:
    """Makes rows at the same pace for as long as the ``with`` block runs, and hands them to ``push``.

    A push that takes long is caught up with; the rows carry the time at which they were made then.
    """

    def __init__(self, push: Push, *, make: Make = rows, push_rows: int = PUSH_ROWS) -> None:
        self._push = push
        self._make = make
        self._push_rows = push_rows
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._made = 0
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    @property
    def made(self) -> int:
        """How many rows were handed over."""
        return self._made

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raises what ended it before its time."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Returns when the last push is answered."""
        self._over.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self) -> None:
        began, pushes = time.monotonic(), 0
        try:
            while not self._over.wait(max(0.0, began + pushes / PUSHES_S - time.monotonic())):
                self._push(self._make(self._made, self._push_rows, now_us()))
                self._made += self._push_rows
                pushes += 1
        except Exception as error:
            self._failure = error

"""How late the tuples of a stream come to a client: read by a thread, as a program of its own would.

A tuple's stream time is when it was made: a generator stamps its rows with it, and a Join gives its result the later of
its two. So a latency is the arrival at the client less the stream time, by the one clock of this machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import AnabranchError
from anabranch.model.header import KIND, STIME, Kind
from anabranch.paper.curves import Arrivals
from anabranch.transport.session import Connection, connect


class MicroBatches:
    """How long the micro-batches of some nodes take, from now on; ``nodes`` has their addresses."""

    def __init__(self, nodes: Mapping[str, str]) -> None:
        self._nodes = nodes
        self._began = time.monotonic()
        self._before = self._counted()

    def lengths_ms(self) -> dict[str, float]:
        """The mean per node and stage that ran any, without the time in which a stage had nothing to do."""
        passed_ms = (time.monotonic() - self._began) * 1000
        found = {}
        for stage, (batches, held_ms) in self._counted().items():
            batches_before, held_before_ms = self._before.get(stage, (0, 0))
            if batches > batches_before:
                busy_ms = passed_ms - (held_ms - held_before_ms)
                found[stage] = round(max(0.0, busy_ms) / (batches - batches_before), 1)
        return found

    def _counted(self) -> dict[str, tuple[int, int]]:
        counted: dict[str, tuple[int, int]] = {}
        for node, address in self._nodes.items():
            with connect(address) as connection:
                queries = connection.status().queries
            stages = [each for query in queries.values() for each in query.stages.items()]
            counted |= {f"{node} {name}": (stage.batches, stage.held_ms) for name, stage in stages}
        return counted


class Reader:
    """Follows one stream at one node from now on. ``error`` is why it ended early, if it did."""

    def __init__(self, address: str, stream: str) -> None:
        self.stream: Final = stream
        self.error: AnabranchError | None = None
        self._connection: Connection = connect(address)
        self._subscription = self._connection.subscribe(stream, start="end")
        self._pieces: list[tuple[float, np.ndarray]] = []
        self._thread = threading.Thread(target=self._run, name=f"reader of {stream}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._subscription.close()
        self._thread.join()
        self._connection.close()

    @property
    def rows(self) -> int:
        return sum(len(times) for _, times in self._pieces)

    def arrivals(self, since_s: float) -> Arrivals:
        """What came after this moment of the clock, with times counted from it."""
        pieces = [(at, times) for at, times in self._pieces if at >= since_s]
        arrived = np.concatenate([np.full(len(times), at) for at, times in pieces] or [np.empty(0)])
        made = np.concatenate([times for _, times in pieces] or [np.empty(0)])
        return Arrivals(at_s=arrived - since_s, latency_s=arrived - made)

    def _run(self) -> None:
        try:
            for batch in self._subscription:
                self._take(batch, time.time())
        except AnabranchError as error:  # told by the thread that looks
            self.error = error

    def _take(self, batch: pa.RecordBatch, now_s: float) -> None:
        rows = batch.filter(pc.equal(batch.column(KIND), int(Kind.INSERTION)))
        if rows.num_rows:
            self._pieces.append((now_s, rows.column(STIME).cast(pa.int64()).to_numpy() / 1e6))

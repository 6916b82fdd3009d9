"""Pushes: how many an entry point answers in a second, and how soon, beside the limit that the disk sets.

An answer says that rows are durable, so a plain append of the same bytes to SQLite, one synced transaction for each
push, is the physical limit for one producer that waits for its answer. Many producers that push at once can share a
sync, and so get more answers than that.

What is compared takes turns: one producer, many, and the plain append, in several rounds, in an order that changes. So
a machine that is slow for a while is slow for all of them. A bounded ratio is that of the round in the middle.
"""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch.bench.bench import Bench
from anabranch.bench.entry_process import SOURCE
from anabranch.bench.processes import KILL_S, free_ports, said_last, start_python
from anabranch.bench.report import Bound, Report, Result
from anabranch.errors import AnabranchError, EngineError
from anabranch.transport.client import Client
from anabranch.transport.session import connect

POINTS: Final = (1, 3)
PUSH_ROWS: Final = (1, 100, 10_000)
PRODUCERS: Final = (1, 20)
SMALL, LARGE = PUSH_ROWS[0], PUSH_ROWS[-1]
ONE, MANY = PRODUCERS
TEXT_BYTES: Final = 80
MOST_BYTES: Final = 200_000_000
"""What one measurement pushes at most: a fast disk would be filled otherwise."""
START_S: Final = 60.0

GROUPED: Final = Bound(least=4)
"""Answers a second of many producers, by those of one."""
BYTES: Final = Bound(least=0.5)
"""Bytes a second of large pushes, by those of the plain append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    seconds: float
    """Of each measurement."""
    rounds: int = 1
    points: Sequence[int] = POINTS
    push_rows: Sequence[int] = PUSH_ROWS


FULL: Final = Plan(seconds=1.5, rounds=5)
QUICK: Final = Plan(seconds=1.0)

Key = tuple[int, int]
"""Entry points, and rows a push."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Pushes that were answered within a time, each of the same size."""

    latencies_s: np.ndarray
    took_s: float
    rows: int
    bytes: int

    @property
    def per_s(self) -> float:
        return len(self.latencies_s) / self.took_s

    @property
    def rows_s(self) -> float:
        return self.per_s * self.rows

    @property
    def bytes_s(self) -> float:
        return self.per_s * self.bytes

    def latency_ms(self, share: float) -> float:
        return float(np.quantile(self.latencies_s, share)) * 1_000

    def details(self) -> dict[str, Any]:
        return {
            "answers/s": round(self.per_s, 1),
            "rows/s": round(self.rows_s),
            "MB/s": round(self.bytes_s / 1e6, 2),
            "median, ms": round(self.latency_ms(0.5), 3),
            "95 %, ms": round(self.latency_ms(0.95), 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was measured of pushes of one size in one turn, each right after the other."""

    plain: Answers
    by: Mapping[int, Answers]
    """By producers."""

    @property
    def grouped(self) -> float:
        return self.by[MANY].per_s / self.by[ONE].per_s

    @property
    def beside_plain(self) -> float:
        return self.by[ONE].bytes_s / self.plain.bytes_s


def middle(rounds: Sequence[Round], ratio: Callable[[Round], float]) -> Round:
    """The round that has the median of these ratios, or the lower one of two in the middle."""
    return sorted(rounds, key=ratio)[(len(rounds) - 1) // 2]


class EntryBench(Bench[Plan]):
    def run(self, report: Report) -> None:
        found: dict[Key, list[Round]] = {}
        for points, rows in product(self._plan.points, self._plan.push_rows):
            with self._entry_points(points, self._directory / f"{points}-{rows}") as addresses:
                found[points, rows] = [self._round(addresses, rows, turn) for turn in range(self._plan.rounds)]
        report.add(*compared(found))
        for (points, rows), rounds in found.items():
            report.details[f"{_points(points)}, {_rows(rows)}"] = [
                {
                    "plain append": each.plain.details(),
                    **{_producers(count): answers.details() for count, answers in each.by.items()},
                }
                for each in rounds
            ]

    def _round(self, addresses: Sequence[str], rows: int, turn: int) -> Round:
        measured: dict[int, Answers] = {}
        takers = [0, *PRODUCERS]
        for producers in takers if turn % 2 == 0 else reversed(takers):
            who = _producers(producers) if producers else "plain append"
            self._say(f"{_points(len(addresses))}, {_rows(rows)} a push, round {turn + 1}: {who}")
            measured[producers] = self._push(addresses, rows, producers) if producers else self._plain(rows)
        return Round(plain=measured.pop(0), by=measured)

    # --- what is compared ------------------------------------------------------------------------------------------

    def _plain(self, rows: int) -> Answers:
        """The same bytes, each push a synced transaction."""
        body = made(rows).serialize().to_pybytes()
        file = self._directory / "plain.db"
        connection = sqlite3.connect(file, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
            return self._timed(
                [lambda: connection.execute("INSERT INTO log (body) VALUES (?)", (body,))], rows, threads=False
            )
        finally:
            connection.close()
            file.unlink()

    def _push(self, addresses: Sequence[str], rows: int, producers: int) -> Answers:
        batch = made(rows)
        with connect(list(addresses) if len(addresses) > 1 else addresses[0]) as connection:
            opened = [connection.producer(SOURCE, f"p{number}") for number in range(producers)]
            for producer in opened:
                producer.push(batch)  # it has found who leads, and its call is open
            return self._timed([lambda each=each: each.push(batch) for each in opened], rows)  # type: ignore[misc]

    def _timed(self, pushes: Sequence[Callable[[], object]], rows: int, *, threads: bool = True) -> Answers:
        """All push for as long as was planned, each as soon as it was answered."""
        size = made(rows).nbytes
        most = max(1, MOST_BYTES // size // len(pushes))
        until = time.monotonic() + self._plan.seconds
        took: list[list[float]] = [[] for _ in pushes]
        failures: list[Exception] = []

        def run(push: Callable[[], object], mine: list[float]) -> None:
            try:
                while time.monotonic() < until and len(mine) < most and not failures:
                    began = time.perf_counter()
                    push()
                    mine.append(time.perf_counter() - began)
            except Exception as error:
                failures.append(error)

        began = time.perf_counter()
        if threads:
            running = [threading.Thread(target=run, args=each) for each in zip(pushes, took, strict=True)]
            for thread in running:
                thread.start()
            for thread in running:
                while thread.is_alive():
                    thread.join(0.2)
                    self._check()
        else:
            run(pushes[0], took[0])
        if failures:
            raise failures[0]
        took_s = time.perf_counter() - began
        return Answers(
            latencies_s=np.concatenate([np.array(each) for each in took]), took_s=took_s, rows=rows, bytes=size
        )

    # --- entry points ----------------------------------------------------------------------------------------------

    @contextmanager
    def _entry_points(self, count: int, directory: Path) -> Iterator[list[str]]:
        ports = dict(zip("abc"[:count], free_ports(count), strict=True))
        running: dict[Path, subprocess.Popen[bytes]] = {}
        try:
            for name in ports:
                place = directory / name
                place.mkdir(parents=True)
                given = [f"{each}={port}" for each, port in ports.items()]
                running[place] = start_python(
                    place, "anabranch.bench.entry_process", str(place / "state"), name, *given
                )
            addresses = [f"127.0.0.1:{port}" for port in ports.values()]
            self._wait_begun(addresses, running)
            yield addresses
        finally:
            for process in running.values():
                process.kill()
                process.communicate(timeout=KILL_S)

    def _wait_begun(self, addresses: Sequence[str], running: Mapping[Path, subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + START_S
        while not all(map(_has_begun, addresses)):
            self._check()
            for place, process in running.items():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise EngineError(f"An entry point does not run: {said_last(place)}")
            time.sleep(0.1)


def _has_begun(address: str) -> bool:
    with suppress(AnabranchError), Client(address) as client:
        sources = client.status().only_query.sources
        lanes = [lane for source in sources.values() for lane in source.lanes.values()]
        return bool(lanes) and all(lane.shared is None or lane.shared.state != "beginning" for lane in lanes)
    return False


def made(rows: int) -> pa.RecordBatch:
    texts = np.random.default_rng(1).integers(97, 123, rows * TEXT_BYTES, dtype=np.uint8).tobytes().decode()
    return pa.RecordBatch.from_pydict(
        {
            "n": pa.array(np.arange(rows)),
            "text": pa.array([texts[at : at + TEXT_BYTES] for at in range(0, len(texts), TEXT_BYTES)]),
        }
    )


def compared(found: Mapping[Key, Sequence[Round]]) -> list[Result]:
    """The bounds first, then everything by entry points, size and producers."""
    results = []
    for (points, rows), rounds in found.items():
        if rows == SMALL:
            by = middle(rounds, lambda each: each.grouped).by
            name = f"{_points(points)}, {_rows(SMALL)}: {MANY} producers by one"
            results.append(
                Result(name=name, value=by[MANY].per_s, unit="answers/s", baseline=by[ONE].per_s, bound=GROUPED)
            )
    if (1, LARGE) in found:
        turn = middle(found[1, LARGE], lambda each: each.beside_plain)
        value, baseline = turn.by[ONE].bytes_s / 1e6, turn.plain.bytes_s / 1e6
        results.append(
            Result(name="1 entry point, large pushes", value=value, unit="MB/s", baseline=baseline, bound=BYTES)
        )
    for ((points, rows), rounds), producers in product(found.items(), PRODUCERS):
        name = f"{_points(points)}, {_rows(rows)}, {_producers(producers)}"
        measured, plain = [each.by[producers] for each in rounds], [each.plain for each in rounds]
        for label, unit, number in _NUMBERS:
            value, baseline = (float(np.median([number(each) for each in side])) for side in (measured, plain))
            results.append(Result(name=label or name, value=value, unit=unit, baseline=baseline))
    return results


_NUMBERS: Final[tuple[tuple[str, str, Callable[[Answers], float]], ...]] = (
    ("", "rows/s", lambda each: each.rows_s),
    ("  answer, median", "ms", lambda each: each.latency_ms(0.5)),
    ("  answer, 95 %", "ms", lambda each: each.latency_ms(0.95)),
)


def _points(count: int) -> str:
    return "1 entry point" if count == 1 else f"{count} entry points"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count} producers"

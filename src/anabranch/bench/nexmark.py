"""``anabranch bench nexmark``: the queries of the Nexmark benchmark, on a node and on plain Spark, and some that race.

The same rows of the seeded generator go to all sides, in the order of the events. Throughput counts from the first push
(or the first file that is there) until the last result is logged. A node's results must be those that DuckDB computes
from the same rows in batch, or the benchmark fails; of plain Spark it is only asked that as many come. Where plain
Spark has no streaming form of a query, or refuses it, the node's number stands for itself.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch import limits
from anabranch.bench.bench import Bench
from anabranch.bench.nexmark_batch import BATCH, Batch
from anabranch.bench.nexmark_plain import PLAIN
from anabranch.bench.processes import free_ports
from anabranch.bench.report import Report, Result
from anabranch.bench.sides import CONF, FILES_PER_BATCH, LOOK_S, QUICK_CONF
from anabranch.bench.ways import check_nodes
from anabranch.columns import arrow_schema
from anabranch.connectors.nexmark import NexmarkRows, rows_of
from anabranch.connectors.paced import BLOCK_ROWS
from anabranch.deploy.supervisor import Supervisor
from anabranch.engine.baseline import PlainSql
from anabranch.engine.session import SparkSettings, open_session
from anabranch.errors import EngineError, InvariantBroken
from anabranch.model.header import HEADER, KIND, Kind
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query import yaml_form
from anabranch.query.boxes import Diagram, Source
from anabranch.query.connectors import NEXMARK, NexmarkFeed
from anabranch.query.files import load
from anabranch.query.text import diagram_to_dict
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store
from anabranch.transport.session import Connection, connect

WAIT_S: Final = 1_800.0
"""Until a query that makes no progress counts as hanging."""

PUSH_EVENTS: Final = limits.SEGMENT_ROWS
"""Events whose rows are pushed, or written to files, before those of the next ones."""

OUTPUT: Final = "out"
ENTRY: Final = "entry"
COPIES: Final = ("a", "b")
Piece = tuple[str, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: events of all streams together, and which queries also race."""

    events: int
    warm_events: int
    """Worked off before time is taken."""
    racing: tuple[str, ...]
    conf: Mapping[str, str]
    queries: tuple[str, ...] = tuple(BATCH)


FULL: Final = Plan(events=1_000_000, warm_events=100_000, racing=("q1", "q5", "q8"), conf=CONF)
QUICK: Final = Plan(events=20_000, warm_events=0, racing=(), conf=QUICK_CONF)


class NexmarkBench(Bench[Plan]):
    def run(self, report: Report) -> None:
        self._say(f"making {self._plan.events:,} events")
        events = Events(self._plan.events)
        batch = Batch(events.tables)
        for name in self._plan.queries:
            expected = batch.count(name)
            if self._plan.warm_events:
                self._say(f"{name}: warming up")
                warm = Events(self._plan.warm_events)
                self._ours(name, warm, Batch(warm.tables))
            self._say(f"{name}: anabranch")
            ours_s = self._ours(name, events, batch)
            plain_s = None
            if name in PLAIN:
                self._say(f"{name}: plain Spark")
                plain_s = self._plain(name, events, expected, report)
            rows = events.rows(self._query(name))
            baseline = None if plain_s is None else rows / plain_s
            report.add(Result(name=f"{name}: throughput", value=rows / ours_s, unit="events/s", baseline=baseline))
            report.details[name] = {"events read": rows, "results": expected}
        for name in self._plan.racing:
            self._say(f"{name}: race, two copies")
            rows, took_s = events.rows(self._query(name)), self._race(name, events, batch)
            report.add(Result(name=f"{name}: race, two copies", value=rows / took_s, unit="events/s"))

    def _query(self, name: str) -> Diagram:
        return load(_examples() / f"{name}.sql").checked().without_connectors()

    # --- a node ----------------------------------------------------------------------------------------------------

    def _ours(self, name: str, events: Events, batch: Batch) -> float:
        """Seconds from the first push to the last result, which must be those of the batch."""
        diagram, directory = self._query(name), self._directory / "state"
        expected = batch.count(name)
        node = Node(diagram, directory, NodeSettings(conf=self._plan.conf), directory=_examples())
        node.start()
        try:
            with connect(node.address) as connection:
                began = time.monotonic()
                _push(connection, diagram, events)
                self._wait(lambda: node.stream(name).last_id >= expected, lambda: _raise(node.failure()))
                took_s = time.monotonic() - began
                check_results(name, batch, _read(connection, name))
        finally:
            node.stop()
        shutil.rmtree(directory)
        return took_s

    def _wait(self, condition: Callable[[], bool], alive: Callable[[], None]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self._check()
            alive()
            if time.monotonic() > deadline:
                raise EngineError(f"Results are still missing after {WAIT_S:.0f} s.")
            time.sleep(LOOK_S)

    # --- plain Spark -----------------------------------------------------------------------------------------------

    def _plain(self, name: str, events: Events, expected: int, report: Report) -> float | None:
        """Seconds from the first file to the last result; None if Spark refuses the query."""
        directory = self._directory / "plain"
        diagram = self._query(name)
        try:
            with plain_side(name, diagram, directory, self._plan.conf) as side:
                staged = [side.stage(source, rows) for source, rows in events.pieces(diagram)]
                staged += [side.stage(source.name, events.closing(source.name)) for source in diagram.sources]
                began = time.monotonic()
                for file, place in staged:
                    file.rename(place)
                self._wait(lambda: side.rows_out() >= expected, side.check_alive)
                return time.monotonic() - began
        except EngineError as error:
            report.details[f"{name}, plain Spark"] = str(error)[:500]
            return None
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    # --- copies that race ------------------------------------------------------------------------------------------

    def _race(self, name: str, events: Events, batch: Batch) -> float:
        diagram, directory = self._query(name), self._directory / "race"
        expected = batch.count(name)
        directory.mkdir()
        nodes = Supervisor(
            _deployment(diagram, directory),
            state=directory / "state",
            environment={"TMPDIR": str(self._directory)},
        )
        try:
            nodes.start()
            nodes.wait_running(between=self._check)
            address = {each: str(nodes.plan.nodes[each].address) for each in (ENTRY, *COPIES)}
            with connect(address[ENTRY]) as entry, connect([address[copy] for copy in COPIES]) as copies:
                began = time.monotonic()
                _push(entry, diagram, events)
                found: list[pa.RecordBatch] = []
                with copies.subscribe(name, start="start", deadline_s=WAIT_S) as subscription:
                    for rows in subscription if expected else ():
                        self._check()
                        check_nodes(nodes)
                        found.append(rows.filter(pc.equal(rows.column(KIND), int(Kind.INSERTION))))
                        if sum(each.num_rows for each in found) >= expected:
                            break
                took_s = time.monotonic() - began
        finally:
            nodes.stop(wait_s=0.0)
        check_results(name, batch, _data(pa.Table.from_batches(found)))
        shutil.rmtree(directory, ignore_errors=True)
        return took_s


class Events:
    """The rows of the three streams, made once."""

    def __init__(self, events: int) -> None:
        self._events: Final = events
        self.tables: Final = {stream: _table(stream, events) for stream in NEXMARK}

    def rows(self, diagram: Diagram) -> int:
        """How many rows the sources of a query have."""
        return sum(self.tables[source.name].num_rows for source in diagram.sources)

    def pieces(self, diagram: Diagram) -> Iterator[Piece]:
        """The rows of the query's sources, some of each in turn, as the events come."""
        for first in range(0, self._events, PUSH_EVENTS):
            last = min(first + PUSH_EVENTS, self._events)
            for source in diagram.sources:
                start, end = (rows_of(source.name, count) for count in (first, last))
                yield source.name, self._columns(source, start, end - start)

    def closing(self, stream: str) -> pa.Table:
        """A row an hour later: plain Spark closes windows by what comes after them."""
        table = self.tables[stream]
        last = table.slice(table.num_rows - 1)
        index = table.schema.get_field_index("dateTime")
        later = pc.add(last.column(index), pa.scalar(timedelta(hours=1), pa.duration("us")))
        return last.set_column(index, table.schema.field(index), later)

    def _columns(self, source: Source, start: int, count: int) -> pa.Table:
        return self.tables[source.name].select([column.name for column in source.schema]).slice(start, count)


def _table(stream: str, events: int) -> pa.Table:
    schema = arrow_schema(list(NEXMARK[stream].items()))
    rows, count = NexmarkRows(NexmarkFeed(stream=stream, events=events), schema), rows_of(stream, events)
    firsts = range(0, count, BLOCK_ROWS)
    return pa.Table.from_batches([rows.made(at, min(BLOCK_ROWS, count - at), 0) for at in firsts], schema)


def check_results(name: str, batch: Batch, found: pa.Table) -> None:
    missing, added = batch.differences(name, found)
    if missing or added:
        raise InvariantBroken(f"{name}: {missing} results of the batch are missing, and {added} results are not in it.")


def _push(connection: Connection, diagram: Diagram, events: Events) -> None:
    """All rows, and then the ends of the lanes: every window closes."""
    producers = {source.name: connection.producer(source.name, "bench") for source in diagram.sources}
    for source, rows in events.pieces(diagram):
        for each in rows.combine_chunks().to_batches():
            producers[source].push(each)
    for producer in producers.values():
        producer.close_lane()


def _read(connection: Connection, stream: str) -> pa.Table:
    with connection.subscribe(stream, start="start", follow=False) as subscription:
        read = [each for each in subscription if each.num_rows]
    rows = pa.Table.from_batches(read, subscription.schema)
    return _data(rows.filter(pc.equal(rows[KIND], int(Kind.INSERTION))))


def _data(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name not in HEADER])


def _raise(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


# --- plain Spark ----------------------------------------------------------------------------------------------------


class PlainSide:
    """A query of plain Spark on directories of files, and a log of its results."""

    def __init__(self, query: PlainSql, store: Store, directory: Path) -> None:
        self._query = query
        self._store = store
        self._directory = directory
        self._files = 0

    def stage(self, source: str, rows: pa.Table) -> tuple[Path, Path]:
        """A file, and where it shall be. Spark takes files in the order of their times."""
        self._files += 1
        name = f"{self._files:06d}.parquet"
        staged = self._directory / "staging" / name
        pq.write_table(rows, staged)
        os.utime(staged, (self._files, self._files))
        return staged, self._directory / source / name

    def rows_out(self) -> int:
        return self._store.log(OUTPUT).last_id()

    def check_alive(self) -> None:
        error = self._query.error()
        if error is not None:
            raise EngineError(f"Plain Spark failed: {error}")

    def log(self, table: pa.Table) -> None:
        """In a transaction as ours is, with header columns of as many bytes."""
        rows = table.num_rows
        header = {
            "_tid": pa.nulls(rows, pa.int64()).fill_null(0),
            "_stime": pa.nulls(rows, pa.int64()).fill_null(1).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.nulls(rows, pa.int32()).fill_null(0),
        }
        data = {name: table[name] for name in table.column_names}
        with self._store.transaction() as transaction:
            transaction.append(OUTPUT, pa.table({**header, **data}), {}, now_us=time.time_ns() // 1_000, force=True)


@contextmanager
def plain_side(name: str, diagram: Diagram, directory: Path, conf: Mapping[str, str]) -> Iterator[PlainSide]:
    folders = {source.name: directory / source.name for source in diagram.sources}
    for folder in (directory / "staging", *folders.values()):
        folder.mkdir(parents=True)
    session = open_session(SparkSettings(conf=conf))
    try:
        query = PlainSql(
            session, PLAIN[name], diagram.sources, folders, directory / "checkpoint", files_per_batch=FILES_PER_BATCH
        )
    except Exception as error:  # of Spark, which tells no two refusals apart by class
        raise EngineError(f"Plain Spark refuses the query: {error}") from error
    store = Store.open(directory / "out.db")
    store.create_log(
        LogSpec(
            name=OUTPUT,
            schema=query.schema,
            origins=("plain",),
            kind="output",
            retention_us=limits.LOG_RETENTION_US,
            limit_bytes=limits.LOG_BYTES,
        )
    )
    side = PlainSide(query, store, directory)
    try:
        _start(query, side)
        yield side
    finally:
        query.stop()
        store.close()


def _start(query: PlainSql, side: PlainSide) -> None:
    try:
        query.start(side.log)
    except Exception as error:
        raise EngineError(f"Plain Spark refuses the query: {error}") from error


# --- deployments ----------------------------------------------------------------------------------------------------


def _deployment(diagram: Diagram, directory: Path) -> Path:
    """An entry point for all sources, and two copies."""
    (directory / "query.yaml").write_text(yaml_form.dump(diagram_to_dict(diagram)), encoding="utf-8")
    names = (ENTRY, *COPIES)
    entries = ", ".join(f"{source.name} = {json.dumps(ENTRY)}" for source in diagram.sources)
    lines: Sequence[Any] = [
        *("[spark]", 'master = "local[1]"'),
        "[nodes]",
        *(f'{name} = {{address = "127.0.0.1:{port}"}}' for name, port in zip(names, free_ports(3), strict=True)),
        *(f"[queries.{diagram.name}]", 'file = "query.yaml"', 'mode = "race"'),
        f"on = {json.dumps(list(COPIES))}",
        f"entry = {{{entries}}}",
        "",
    ]
    file = directory / "nexmark.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def _examples() -> Path:
    """In a checkout beside the sources; a wheel has them in the package."""
    package = Path(__file__).parents[1]
    inside = package / "examples"
    return (inside if inside.is_dir() else package.parents[1] / "examples") / "nexmark"

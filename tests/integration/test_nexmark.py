"""Every query of examples/nexmark on Spark gives the rows that DuckDB computes from the same events in batch."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import anabranch as ab
from anabranch.bench.nexmark_batch import BATCH, Batch
from anabranch.columns import arrow_schema
from anabranch.connectors.feed import Rows
from anabranch.connectors.nexmark import NexmarkRows
from anabranch.model.header import HEADER
from anabranch.query.connectors import NEXMARK, NexmarkFeed
from anabranch.query.files import load
from tests.spark import COMPILED, running, scratch
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
EVENTS = 4_000
SPREAD = "5ms"
"""Between events: twenty seconds of stream time in all, so that windows close and joins forget."""
DENSE = {"q4": "100us", "q9": "100us"}
"""Auctions last for the time of some hundred others, and these queries give them a second."""
IN_EVERY_RUN = ("q5",)
"""A join of two aggregates, with sliding windows."""


def events(stream: str, every: str) -> NexmarkFeed:
    feed = ab.feeds.nexmark(stream, events=EVENTS, every=every)  # type: ignore[arg-type]
    assert isinstance(feed, NexmarkFeed)
    return feed


@cache
def batch(every: str) -> Batch:
    tables: dict[str, pa.Table] = {}
    for stream, columns in NEXMARK.items():
        rows = NexmarkRows(events(stream, every), arrow_schema(list(columns.items())))
        rows.begin(1, 0)
        batches = []
        while isinstance(taken := rows.take(0), Rows):
            batches.append(taken.batch)
        tables[stream] = pa.Table.from_batches(batches)
    return Batch(tables)


def test_there_is_a_file_for_each_query_and_a_batch_for_each_file() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.sql")) == sorted(BATCH)


def _marked(query: str) -> object:
    return query if query in IN_EVERY_RUN else pytest.param(query, marks=pytest.mark.long)


@pytest.mark.parametrize("name", [_marked(query) for query in BATCH])
def test_a_query_gives_what_the_batch_gives(name: str) -> None:
    every = DENSE.get(name, SPREAD)
    expected = batch(every)
    query = load(EXAMPLES / f"{name}.sql")
    for source in query.diagram().sources:
        query.feed(source.name, events(source.name, every))
    with scratch() as directory:
        with running(query, directory / "state", conf=COMPILED) as node, ab.connect(node.address) as connection:
            wait_for(lambda: all(each.state == "finished" for each in node.statistics().feeds.values()))
            assert node.wait_caught_up(HANG_S)
            found = output(connection, name)
        shutil.rmtree(directory, ignore_errors=True)
    assert found.num_rows > 0
    assert (found.num_rows, expected.differences(name, found)) == (expected.count(name), (0, 0))


def output(connection: ab.Connection, name: str) -> pa.Table:
    with connection.subscribe(name, start="start", follow=False) as subscription:
        rows = pa.Table.from_batches([each for each in subscription if each.num_rows], subscription.schema)
    rows = rows.filter(pc.equal(rows["_kind"], int(ab.Kind.INSERTION)))
    return rows.select([column for column in rows.column_names if column not in HEADER])

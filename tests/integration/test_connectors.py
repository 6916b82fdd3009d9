"""Feeds and writers that need Spark, on running nodes that are stopped and started again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.engine.writer import SparkTarget
from anabranch.node.node import Node
from tests.spark import running
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


def shown(node: Node) -> object:
    statistics = node.statistics()
    return statistics.feeds, statistics.writers, node.failure()


def caught_up(node: Node, rows: int) -> bool:
    writers = [facts for writers in node.statistics().writers.values() for facts in writers.values()]
    return all(facts.position == rows for facts in writers)


def test_generated_rows_reach_files_and_a_database_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    query = ab.Query("out")
    numbers = query.source("numbers", "n bigint, s string", feed="generator:rate=max,rows=3000,n=sequence,then=wait")
    jdbc = ab.writers.spark("jdbc", every="100ms", rows=1000, options={"url": url, "dbtable": "tuples"})
    to = [
        ab.writers.jsonl(tmp_path / "out.jsonl"),
        ab.writers.parquet(tmp_path / "own", every="200ms"),
        ab.writers.spark("parquet", every="100ms", options={"path": str(tmp_path / "spark")}),
        jdbc,
        ab.writers.table(f"sqlite:{tmp_path / 'tables.db'}", "all_tuples"),
        ab.writers.table(f"sqlite:{tmp_path / 'newest.db'}", "newest", key="s"),
    ]
    query.output("even", numbers.filter("n % 2 = 0"), to=to)
    fail_first = failing_after_a_part(monkeypatch)
    with running(query, tmp_path / "state") as node:
        wait_for(lambda: caught_up(node, 1500), lambda: shown(node))
        assert fail_first == []
    query.feed("numbers", "generator:rate=max,rows=4000,n=sequence")
    with running(query, tmp_path / "state") as node:
        wait_for(lambda: caught_up(node, 2000), lambda: shown(node))
        assert node.hosted._spark is not None
        session = node.hosted._spark.session()
        expected = list(range(1, 2001))
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["_id"] for line in lines] == expected
        assert [line["n"] for line in lines] == [2 * number for number in range(2000)]
        with closing(sqlite3.connect(tmp_path / "tables.db")) as database:
            assert sorted(database.execute("SELECT n FROM all_tuples")) == [(2 * number,) for number in range(2000)]
        newest = {line["s"]: line["n"] for line in sorted(lines, key=lambda line: (line["_stime"], line["_tid"]))}
        with closing(sqlite3.connect(tmp_path / "newest.db")) as database:
            assert dict(database.execute("SELECT s, n FROM newest")) == newest
        assert pq.read_table(tmp_path / "own").column("_id").to_pylist() == expected
        table = session.read.format("jdbc").options(url=url, dbtable="tuples").load()
        assert sorted(row["_id"] for row in table.collect()) == expected
        assert sorted(row["_id"] for row in session.read.parquet(str(tmp_path / "spark")).collect()) == expected


def failing_after_a_part(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first batch of each target is written in part, and then the connection is lost."""
    whole = SparkTarget.append
    left = ["jdbc", "parquet"]

    def append(self: SparkTarget, tuples: Any) -> None:
        if self._format in left and tuples.num_rows:
            left.remove(self._format)
            whole(self, tuples.slice(tuples.num_rows // 3, 100))
            raise ab.EngineError("the connection was lost")
        whole(self, tuples)

    monkeypatch.setattr(SparkTarget, "append", append)
    return left


def test_what_cannot_be_read_back_is_refused_unless_that_is_accepted(tmp_path: Path) -> None:
    query = ab.Query("noop")
    query.output("o", query.source("s", "x bigint", feed="generator:rate=max,rows=10"), to="spark:noop")
    with pytest.raises(ab.ConfigError, match="at-least-once"), running(query, tmp_path / "state"):
        pass
    query.write("o", "spark:noop,guarantee=at-least-once,every=50ms")
    with running(query, tmp_path / "state") as node:
        wait_for(lambda: caught_up(node, 10), lambda: shown(node))


def test_files_that_spark_follows_are_fed_once(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()

    def deliver(name: str, first: int) -> None:
        text = "".join(json.dumps({"k": f"k{x % 2}", "no": x // 2, "x": x}) + "\n" for x in range(first, first + 100))
        (tmp_path / name).write_text(text)
        (tmp_path / name).rename(inbox / name)

    query = ab.Query("followed")
    files = {"path": str(inbox)}
    schema = "k string, no bigint, x bigint"
    whole = query.source("whole", "x bigint", feed=ab.feeds.spark("json", schema=schema, options=files))
    by_lane = ab.feeds.spark("json", schema=schema, columns="x", lane="k", number="no", options=files)
    lanes = query.source("lanes", "x bigint", producers=("k0", "k1"), feed=by_lane)
    clock = ab.feeds.spark("rate", columns="value AS x", options={"rowsPerSecond": 50})
    ticks = query.source("ticks", "x bigint", feed=clock)
    for name, stream in (("a", whole), ("b", lanes), ("c", ticks)):
        query.output(name, stream, to=ab.writers.jsonl(tmp_path / f"{name}.jsonl"))

    def written(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]

    deliver("1.json", 0)
    with running(query, tmp_path / "state") as node:
        wait_for(
            lambda: len(written("a")) >= 100 and len(written("b")) >= 100 and len(written("c")) >= 50,
            lambda: shown(node),
        )
        deliver("2.json", 100)
        wait_for(lambda: len(written("a")) >= 200 and len(written("b")) >= 200, lambda: shown(node))
    before = len(written("c"))
    deliver("3.json", 200)
    with running(query, tmp_path / "state") as node:
        wait_for(lambda: len(written("a")) >= 300 and len(written("b")) >= 300, lambda: shown(node))
        wait_for(lambda: len(written("c")) > before, lambda: shown(node))
        assert sorted(row["x"] for row in written("a")) == list(range(300))
        assert sorted((row["_origin"], row["_tid"], row["x"]) for row in written("b")) == sorted(
            (f"lanes/k{x % 2}", x // 2 + 1, x) for x in range(300)
        )
        ticked = [row["x"] for row in written("c")]
        assert sorted(ticked) == list(range(len(ticked)))
        feeds = node.statistics().feeds
        assert {name: facts.state for name, facts in feeds.items()} == dict.fromkeys(feeds, "running")

"""Static tables on real nodes: all types, restarts, and replicas that read other contents."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.deploy.parts import assigned, settings_of
from anabranch.deploy.plan import Plan, load_plan
from anabranch.model.header import HEADER
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from tests.spark import QUICK_JVM, running
from tests.unit.deploy.files import WITH_TABLE, with_free_ports, write
from tests.waiting import HANG_S

pytestmark = pytest.mark.spark

MANY = 70_000
"""Rows of a table that Arrow and Spark cut into several pieces."""
ALL = (
    "k bigint, b boolean, ti tinyint, si smallint, i int, f float, d double, s string, bin binary, da date, "
    "at timestamp, de decimal(9,2)"
)
ROW: dict[str, Any] = {
    "k": 1,
    "b": True,
    "ti": 1,
    "si": -2,
    "i": 3,
    "f": 0.5,
    "d": 0.1,
    "s": "é",
    "bin": b"\x00\xff",
    "da": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "de": Decimal("1.25"),
}


def rows_of(connection: ab.Connection, output: str) -> list[dict[str, Any]]:
    with connection.subscribe(output, start="start", follow=False) as subscription:
        found = [row for batch in subscription for row in batch.to_pylist()]
    return [
        {name: value for name, value in row.items() if name not in HEADER}
        for row in found
        if row["_kind"] == ab.Kind.INSERTION
    ]


def looked_up(query: ab.Query, state: Path, keys: list[int], **settings: Any) -> list[dict[str, Any]]:
    with running(query, state, **settings) as node, ab.connect(node.address) as connection:
        connection.push("s", [{"x": key} for key in keys])
        assert node.wait_caught_up(HANG_S)
        return rows_of(connection, "out")


def test_a_table_has_all_types_that_a_stream_has(tmp_path: Path) -> None:
    query = ab.Query("types")
    table = query.table("t", ALL, key="k, bin, da, at, de, s, b", file=str(tmp_path / "t.parquet"))
    query.output("out", query.source("s", "x bigint").lookup(table, on="x = k", outer=True))
    nothing = dict.fromkeys(ROW)
    pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "t.parquet")
    rows = looked_up(query, tmp_path / "state", [1, 2])
    assert sorted(rows, key=lambda row: row["x"]) == [{"x": 1, **ROW}, {"x": 2, **nothing}]


def test_a_restart_goes_on_with_the_same_contents_and_no_others(tmp_path: Path) -> None:
    query = ab.Query("restarted")
    table = query.table("t", "k bigint, name string", key="k", file="t.parquet")
    query.output("out", query.source("s", "x bigint").lookup(table, on="x = k"))
    query.directory = tmp_path
    rows = pa.table({"k": range(MANY), "name": [f"name {number}" for number in range(MANY)]})
    pq.write_table(rows, tmp_path / "t.parquet")
    first = looked_up(query, tmp_path / "state", [MANY - 1, -1])
    assert first == [{"x": MANY - 1, "k": MANY - 1, "name": f"name {MANY - 1}"}]
    pq.write_table(rows.slice(0, MANY - 1), tmp_path / "t.parquet")
    with pytest.raises(ab.StateError, match=r"table 't' had [0-9a-f]{16}, has [0-9a-f]{16}"):
        looked_up(query, tmp_path / "state", [])
    pq.write_table(rows.sort_by([("name", "descending")]), tmp_path / "t.parquet", row_group_size=1_000)
    again = looked_up(query, tmp_path / "state", [7])
    assert again == [*first, {"x": 7, "k": 7, "name": "name 7"}]


def made(plan: Plan, name: str, state: Path) -> Node:
    node = plan.nodes[name]
    conf = {"spark.driver.extraJavaOptions": QUICK_JVM}
    settings = NodeSettings(host="127.0.0.1", port=node.address.port, master="local[2]", conf=conf, tables=node.tables)
    assert settings_of(node).tables == settings.tables
    return Node(plan.queries["paths"].diagram, state, settings, part=assigned(plan, name, "paths"))


def test_a_replica_with_other_contents_does_not_begin(tmp_path: Path) -> None:
    text = with_free_ports().replace("c = {", 'c = {tables = {hosts = "own.csv"}, ')
    plan = load_plan(write(tmp_path, text, WITH_TABLE))
    (tmp_path / "hosts.csv").write_text("host,site\na,east\n")
    (tmp_path / "own.csv").write_text("host,site\na,west\n")
    assert assigned(plan, "c", "paths").shares_tables.keys() == {"b"}
    first = made(plan, "b", tmp_path / "b")
    with first:
        assert first.statistics().tables["hosts"].rows == 1
        with pytest.raises(ab.StateError, match="The contents of table 'hosts' differ from those on node b"):
            made(plan, "c", tmp_path / "c").start()
        (tmp_path / "own.csv").write_text("site,host\neast,a\n")  # its directory is free again
        with made(plan, "c", tmp_path / "c") as second:
            assert second.failure() is None
        assert first.failure() is None

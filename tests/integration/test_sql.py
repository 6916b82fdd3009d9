"""SQL on Spark: the rows that docs/reference/sql.md shows are those that a node makes, and a file of SQL can be run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.model.header import HEADER
from anabranch.node.node import Node
from anabranch.query.files import load
from tests.spark import COMPILED, INTERPRETED, running
from tests.unit.docs.test_sql_page import DECLARED, DIAGRAM, MADE, TABLES
from tests.unit.query.sql_runs import counted
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = {source.name: source.time or "" for source in DIAGRAM.sources}


@pytest.fixture(
    scope="module", params=[INTERPRETED, pytest.param(COMPILED, marks=pytest.mark.long)], ids=["", "compiled"]
)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("sql")
    diagram = DECLARED.without_connectors()
    with (
        running(diagram, directory / "state", tables=_files(directory), conf=request.param) as node,
        ab.connect(node.address) as connection,
    ):
        for source, time in TIMES.items():
            rows = [{**row, time: EPOCH + timedelta(microseconds=row[time])} for row in TABLES[source]]
            connection.push(source, rows)
            with connection.producer(source, "end") as producer:
                producer.close_lane()
        assert node.wait_caught_up(HANG_S)
        yield node


def _files(directory: Path) -> dict[str, str]:
    """The tables that the page shows, as files."""
    for table in DECLARED.tables:
        lines = [",".join(table.columns), *(",".join(row.values()) for row in TABLES[table.name])]
        (directory / f"{table.name}.csv").write_text("\n".join(lines) + "\n")
    return {table.name: str(directory / f"{table.name}.csv") for table in DECLARED.tables}


@pytest.mark.parametrize("output", [output.name for output in DIAGRAM.outputs])
def test_spark_makes_the_rows_that_the_page_shows(output: str, node: Node) -> None:
    with ab.connect(node.address) as connection:
        rows = rows_of(connection, output)
    found = [{name: _plain(value) for name, value in row.items() if name not in HEADER} for row in rows]
    assert counted(found) == counted(MADE[output])


def test_a_file_of_sql_runs(tmp_path: Path) -> None:
    (tmp_path / "made.sql").write_text(
        """
        CREATE SOURCE ping (host STRING, rtt INT, at TIMESTAMP) WITH (
            time = at, feed = 'generator:rate=max,rows=1000,start=2026-01-01T00:00:00Z,every=10ms');
        CREATE OUTPUT counts AS SELECT window_start, count(*) AS n FROM TUMBLE(ping, at, INTERVAL '1' SECOND)
        GROUP BY window_start;
        """
    )
    with running(load(tmp_path / "made.sql"), tmp_path / "state") as node, ab.connect(node.address) as connection:
        wait_for(lambda: len(rows_of(connection, "counts")) >= 10)
        rows = rows_of(connection, "counts")
    assert [row["n"] for row in rows] == [100] * 10
    assert min(row["window_start"] for row in rows) == datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(connection: ab.Connection, stream: str) -> list[dict[str, Any]]:
    batches = connection.subscribe(stream, start="start", follow=False)
    return [row for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


def _plain(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value

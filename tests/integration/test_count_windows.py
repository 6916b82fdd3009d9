"""Windows of tuples in Spark: the same values and types as windows of time, errors that name the box, and the plan."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch import limits
from anabranch.engine.plan import stage_plans
from anabranch.model.header import HEADER
from tests.integration.test_failed_stage import wait_for
from tests.spark import running
from tests.waiting import HANG_S

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)
PAIRS: dict[str, tuple[str, object, object]] = {
    "b": ("boolean", True, None),
    "i1": ("tinyint", -128, None),
    "i2": ("smallint", None, 32767),
    "i4": ("int", 2**31 - 1, None),
    "i8": ("bigint", 2**63 - 1, None),
    "f4": ("float", float("nan"), None),
    "f8": ("double", None, float("-inf")),
    "s": ("string", "grün", None),
    "x": ("binary", b"\x00\xff", None),
    "d": ("date", date(9999, 12, 31), None),
    "t": ("timestamp", datetime(1, 1, 1, tzinfo=UTC), None),
    "m": ("decimal(10,2)", Decimal("12345678.90"), None),
    "n": ("decimal(38,4)", None, Decimal("1234567890123456789012.3456")),
}
"""Per column its type and two values: NULL beside what pandas could not keep next to it."""
NUMBERS = ("i1", "i2", "i4", "i8", "f4", "f8", "m", "n")


def all_types() -> ab.Query:
    query = ab.Query("types")
    columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in PAIRS.items())
    rows = query.source("rows", f"g int, at timestamp, {columns}", time="at")
    aggregates = [f"{function}({name}) AS {function}_{name}" for name in PAIRS for function in ("min", "max", "count")]
    aggregates += [
        f"{function}({name}) AS {function}_{name}" for name in NUMBERS for function in ("sum", "avg", "stddev")
    ]
    query.output("time", rows.aggregate(", ".join(aggregates), by="g", window="10s", name="time_windows"))
    query.output("rows_", rows.aggregate(", ".join(aggregates), by="g", rows=2, name="count_windows"))
    return query


def read(connection: ab.Connection, stream: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The data columns of a stream, and its rows as text, in which NaN equals NaN."""
    batches = list(connection.subscribe(stream, start="start", follow=False))
    fields = [(field.name, str(field.type)) for field in batches[0].schema if field.name not in HEADER]
    rows = [row for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]
    return fields, sorted(str({name: row[name] for name, _ in fields}) for row in rows)


@pytest.mark.long
def test_every_type_comes_out_as_of_a_window_of_time(tmp_path: Path) -> None:
    with running(all_types(), tmp_path / "state") as node, ab.connect(node.address) as connection:
        for number in (0, 1):
            values = {name: pair[1 + number] for name, pair in PAIRS.items()}
            connection.push("rows", [{"g": g, "at": START + timedelta(seconds=number), **values} for g in range(40)])
        with connection.producer("rows", "end") as producer:
            producer.close_lane()
        assert node.wait_caught_up(HANG_S)
        assert len(read(connection, "rows_")[1]) == 40
        assert read(connection, "rows_") == read(connection, "time")


@pytest.mark.long
def test_a_row_that_cannot_be_computed_names_its_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
    query = ab.Query("dividing")
    for which in ("first", "second"):
        rows = query.source(which, "x int")
        tens = rows.aggregate("sum(10 div x) AS x", rows=1, name=f"tens_{which}")
        query.output(f"all_{which}", tens)
        query.output(f"tenths_{which}", tens.filter("1 / x > 0", name=f"behind_{which}"))

    with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
        connection.push("first", [{"x": 0}])
        connection.push("second", [{"x": 11}])  # ten by eleven is nothing
        wait_for(lambda: len(node.failed_stages()) == 2)
        stages = node.statistics().stages
        assert "in box tens_first at `10 div x`: [DIVIDE_BY_ZERO]" in str(stages["tens_first"].error)
        assert "in box behind_second at `1 / x`: [DIVIDE_BY_ZERO]" in str(stages["tens_second"].error)


@pytest.mark.long
def test_the_number_of_shards_is_that_of_the_state_whatever_the_settings_say_later(tmp_path: Path) -> None:
    """A window that began with two shards is completed with five in the settings, and its group is in the same one."""
    query = ab.Query("later")
    rows = query.source("rows", "g int, at timestamp", time="at")
    query.output("pairs", rows.aggregate("count(*) AS n", by="g", rows=2, name="pairs_of"))
    partitions = "spark.sql.shuffle.partitions"
    try:
        for life in (0, 1):
            with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
                SparkSession.builder.getOrCreate().conf.set(partitions, "5")
                with connection.producer("rows", "lane") as producer:
                    producer.push([{"g": g, "at": START + timedelta(seconds=life)} for g in range(40)])
                    producer.push([{"g": -1, "at": START + timedelta(seconds=life, milliseconds=500)}])
                assert node.wait_caught_up(HANG_S)
                assert node.stream("pairs").last_id == 40 * life
    finally:
        SparkSession.builder.getOrCreate().conf.set(partitions, "2")


def test_the_plan_counts_in_python_and_sums_up_without_state_or_a_second_shuffle() -> None:
    query = ab.Query("q")
    query.output("o", query.source("s", "k string, v int").aggregate("sum(v) AS v", by="k", rows=3, name="threes"))
    ((stage, plan),) = stage_plans(query.checked())
    assert stage == "threes"
    assert (plan.count("Order "), plan.count("Exchange"), plan.count("StateStore")) == (1, 1, 0)
    assert plan.index("sum(v") < plan.index("Unpack ") < plan.index("Order ") < plan.index(" Pack ")


def test_a_directory_of_an_older_version_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark kept the state of such a box for another operator then, and keeps the name of that beside it."""
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
    query = ab.Query("older")
    rows = query.source("rows", "x int, at timestamp", time="at")
    query.output("threes", rows.aggregate("count(*) AS n", rows=3, name="threes"))
    with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
        connection.push("rows", [{"x": 1, "at": START}])
        assert node.wait_caught_up(HANG_S)
    make_older(tmp_path / "state")
    with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
        connection.push("rows", [{"x": 2, "at": START + timedelta(seconds=1)}])
        wait_for(node.failed_stages)
        told = str(node.failed_stages()["threes"])
    assert "The state of this box was written by an older version of Anabranch" in told
    assert "Run the query on a new state directory" in told


def make_older(state: Path) -> None:
    """Gives the operators of all checkpoints the name that they had."""
    (metadata,) = state.glob("**/state/0/_metadata/metadata")
    written = metadata.read_text()
    assert '"anabranchOrder"' in written
    metadata.write_text(written.replace('"anabranchOrder"', '"transformWithStateInPySparkExec"'))
    metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)

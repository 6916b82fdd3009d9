"""Replicas add in different orders. What something decides by is the same on all of them, because it is added exactly.

Spark computes the sums here; only the order of the rows is ours.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.columns import arrow_schema
from anabranch.engine.exact import aggregate_columns
from anabranch.engine.session import SparkSettings, open_session
from anabranch.limits import LARGEST_SUM_SCALE, SUM_SCALE
from anabranch.query import floats
from anabranch.query.boxes import Aggregate, Arrow, Diagram
from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.expressions import parse_select
from tests.property.oracle import batches_differ, contents_differ
from tests.recording import Push, Recording, record, replay
from tests.spark import QUICK_JVM

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)
READINGS = [("far", 1e16), ("near", 0.1), ("far", 0.5), ("near", 0.2), ("far", -1e16), ("near", 0.3)]
ANOTHER_ORDER = [5, 3, 1, 0, 4, 2]
"""From left to right, (1e16 + 0.5) - 1e16 is 0 and (1e16 - 1e16) + 0.5 is not; (0.1 + 0.2) + 0.3 is more than 0.6 and
(0.3 + 0.2) + 0.1 is not."""


def deciding(*, counting: bool) -> Diagram:
    """A sum in a predicate, an average as a group, and with ``counting`` both in windows of tuples."""
    query = ab.Query("deciding")
    reading = query.source("reading", "k string, x double, at timestamp", time="at", disorder="1h")
    totals = reading.aggregate("sum(x) AS total, avg(x) AS mean", by="k", window="10s", name="totals")
    query.output(
        "loud", totals.filter("total > 0.6D OR total BETWEEN 0.25D AND 0.55D", name="loud").map("k", name="who")
    )
    query.output("means", totals.aggregate("count(*) AS n", by="mean", window="10s", name="means"))
    if counting:
        threes = reading.aggregate("sum(x) / count(*) AS mean", by="k", rows=3, name="threes")
        query.output("calm", threes.drop("mean > 0.1D", name="calm"))
    return query.checked()


def replicas(diagram: Diagram, directory: Path) -> tuple[Recording, Recording]:
    """The rows in their order, and the same rows in another one."""
    rows = [{"k": k, "x": x, "at": START + timedelta(seconds=second)} for second, (k, x) in enumerate(READINGS)]
    script = [Push(source="reading", rows=tuple(rows), close=True)]
    first = record(diagram, script, directory / "first", Random(1), restarts=0, settles=0.0)
    return first, replay(first, directory / "second", ANOTHER_ORDER)


def identities(recording: Recording, stream: str) -> Counter[object]:
    return Counter(each.identity for each in recording.streams[stream].tuples)


@pytest.mark.parametrize("counting", [False, pytest.param(True, marks=pytest.mark.long)])
def test_replicas_that_add_in_another_order_decide_the_same(tmp_path: Path, counting: bool) -> None:
    first, second = replicas(deciding(counting=counting), tmp_path)
    for name, stream in first.streams.items():
        tuples = Counter(each.content for each in stream.tuples)
        assert tuples == Counter(each.content for each in second.streams[name].tuples), name
    assert [each.values for each in first.streams["loud"].tuples] == [{"k": "far"}]
    for recording in (first, second):
        assert contents_differ(recording) == []
        assert batches_differ(recording) == []


@pytest.mark.long
def test_without_the_rule_they_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same two runs, compiled as if nothing decided by a sum: so it is the rule that makes them agree."""
    monkeypatch.setattr(floats, "exact_scales", lambda diagram: {})
    first, second = replicas(deciding(counting=False), tmp_path)
    assert identities(first, "box:totals") == identities(second, "box:totals")  # identity does not depend on values
    assert [each.values["k"] for each in first.streams["loud"].tuples] == ["near"]
    assert [each.values["k"] for each in second.streams["loud"].tuples] == ["far"]
    assert identities(first, "means") != identities(second, "means")


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return open_session(SparkSettings(master="local[2]", conf={"spark.driver.extraJavaOptions": QUICK_JVM}))


COLUMNS = (
    "sum(x) AS a, avg(x) AS b, mean(f) AS c, 1 + sum(x * 2) FILTER (WHERE n > 0) / count(*) AS d, avg(n) AS e, "
    "sum(m) AS exact_already, sum(n) AS whole, avg(x) FILTER (WHERE n > 99) AS nothing, sum(x) > 0.3D AS decided"
)
TYPES = {"g": "int", "x": "double", "f": "float", "n": "bigint", "m": "decimal(10,2)"}
SCHEMA = arrow_schema(TYPES.items())
OTHERS: list[list[object]] = [[None, 0.1, 0.25, 3e38], [None, -1, 1, 1 << 55], [None, Decimal("0.10")]]
"""What the columns beside g and x have."""


def values(random: Random) -> Iterator[list[float | None]]:
    """Groups of numbers that are hard to add: of all magnitudes, near halves and the limits, and some that are none."""
    special = [math.nan, math.inf, -math.inf, 1e18, -1e18, 1e300, -1e300]
    edges = [0.0, -0.0, 5e-324, 0.5, -0.5, 0.1, 0.2, 0.3, 1e16, -1e16, 1e18 - 128, -1e10, 0.9999999999999999, 2.5e-9]
    for _ in range(40):
        yield [random.choice(edges) for _ in range(8)]
        yield [random.uniform(-1, 1) * 10.0 ** random.randint(-12, 17) for _ in range(8)]
        yield [random.choice([*special, None, 1.5]) for _ in range(random.choice((1, 2, 3)))]
    yield [None, None]


@pytest.mark.parametrize(
    "scale", [SUM_SCALE, *(pytest.param(scale, marks=pytest.mark.long) for scale in (0, 13)), LARGEST_SUM_SCALE]
)
def test_spark_adds_exactly_as_the_reference_does(session: SparkSession, scale: int) -> None:
    random = Random(scale)
    groups = [(g, x) for g, group in enumerate(values(random)) for x in group]
    drawn = [[random.choice(choices) for _ in groups] for choices in OTHERS]
    arrays = [[g for g, _ in groups], [x for _, x in groups], *drawn]
    table = pa.table([pa.array(each, field.type) for each, field in zip(arrays, SCHEMA, strict=True)], SCHEMA)
    box = Aggregate(name="a", input=Arrow("s"), columns=COLUMNS, by=("g",), window_us=1, scale=scale)
    scales = dict.fromkeys((node.alias for node in parse_select(COLUMNS)), scale)
    found = [_spark(session, shuffled, box, scales) for shuffled in (table, table.take(_mixed(len(table), random)))]
    assert found[0] == found[1]
    assert found[0] == _reference(table.to_pylist(), scales)


def _mixed(count: int, random: Random) -> list[int]:
    return random.sample(range(count), count)


def _spark(session: SparkSession, table: pa.Table, box: Aggregate, scales: dict[str, int]) -> dict[int, list[object]]:
    frame = session.createDataFrame(table).repartition(5, "x")
    made = frame.groupBy("g").agg(*[column for _, column in aggregate_columns(frame, box, scales)])
    assert [kind for _, kind in made.dtypes[6:8]] == ["decimal(20,2)", "bigint"]  # types do not change
    return {g: [_bits(value) for value in row] for g, *row in made.collect()}


def _reference(rows: Sequence[dict[str, object]], scales: dict[str, int]) -> dict[int, list[object]]:
    groups: dict[int, list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(row["g"], []).append(row)  # type: ignore[arg-type]
    compiled = [
        compile_aggregate(node.unalias(), {}, TYPES, scales[node.alias.lower()]) for node in parse_select(COLUMNS)
    ]
    return {g: [_bits(each.of({ROWS: group})) for each in compiled] for g, group in groups.items()}


def _bits(value: object) -> object:
    """A double by its bits, all NaNs as one: -0.0 is not 0.0 here."""
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else struct.pack("<d", value)

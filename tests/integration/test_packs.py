"""Rows into packs and out of them, in Spark's JVM: no value and no type changes, and each group has one shard."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from anabranch.engine.packing import ROWS, SHARD, TOUCHED, decode
from anabranch.engine.packs import pack, unpack
from anabranch.engine.session import SparkSettings, open_session
from tests.spark import QUICK_JVM

pytestmark = pytest.mark.spark

TYPES = (
    "_group bigint, _group2 bigint, _stime timestamp, b boolean, i1 tinyint, i2 smallint, i4 int, f4 float, "
    "f8 double, s string, x binary, d date, t timestamp, m decimal(10,2), n decimal(38,4), a array<int>, "
    "r struct<y: int, z: string>"
)
TIME = datetime(2026, 3, 1, tzinfo=UTC)
FULL = (
    TIME, True, -128, 32767, 2**31 - 1, 1.5, float("-inf"), "grün", b"\x00\xff", date(9999, 12, 31), TIME,
    Decimal("12345678.90"), Decimal("-1234567890123456789012.3456"), [1, None], Row(y=1, z=None),
)  # fmt: skip
EMPTY = (TIME, *[None] * (len(FULL) - 1))


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return open_session(SparkSettings(master="local[2]", conf={"spark.driver.extraJavaOptions": QUICK_JVM}))


def packed(session: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    return pack(session.createDataFrame(rows, TYPES).repartition(3))


def test_no_value_and_no_type_changes(session: SparkSession) -> None:
    rows = [(group, -group, *(FULL if group % 2 else EMPTY)) for group in range(-20, 20)]
    frame = session.createDataFrame(rows, TYPES)
    back = unpack(pack(frame).select(ROWS), frame.schema, None)
    assert back.schema == frame.schema
    assert sorted(back.collect(), key=lambda row: row[0]) == sorted(frame.collect(), key=lambda row: row[0])


def test_a_group_has_one_shard_and_a_shard_one_partition(session: SparkSession) -> None:
    made = packed(session, [(group, -group, *FULL) for group in range(100)])
    partitions = made.repartition(SHARD).select(SHARD, ROWS, F.spark_partition_id()).collect()
    groups: dict[int, set[int]] = {}
    for row in partitions:
        groups.setdefault(row[SHARD], set()).update(decode(bytes(row[ROWS])).column("_group").to_pylist())
    assert sorted(group for each in groups.values() for group in each) == list(range(100))
    assert len({row[2] for row in partitions}) == len(groups) == int(session.conf.get("spark.sql.shuffle.partitions"))


def test_a_pack_says_which_parts_its_rows_are_of(session: SparkSession) -> None:
    """A part is chosen by the second hash, so that the groups of a shard are spread over all of them."""
    hashes = [5, 5 + 4096, -1]
    made = pack(session.createDataFrame([(7, part, *FULL) for part in hashes], TYPES).coalesce(1))
    (row,) = made.select(TOUCHED, ROWS).collect()
    bits = int.from_bytes(bytes(row[TOUCHED]), "little")
    assert bits == 1 << 5 | 1 << 4095
    assert decode(bytes(row[ROWS])).column("_group2").to_pylist() == hashes
    assert pack(session.createDataFrame([], TYPES)).collect() == []

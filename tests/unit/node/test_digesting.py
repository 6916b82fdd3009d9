"""A number for each row tells exact columns apart, and copies that differ raise an alarm at the inlet of both."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.core.identities import Header
from anabranch.core.inlet import CopyAnswered
from anabranch.limits import DIGEST_INTERVAL_US as I
from anabranch.node.digesting import row_numbers
from anabranch.node.inlet import JournalInlet
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

ORIGINS = ("a", "b")
VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "int": (pa.int32(), [1, 2, -1, 0, None]),
    "tiny": (pa.int8(), [1, -1, None]),
    "long": (pa.int64(), [1, 2**62, -(2**63), None]),
    "truth": (pa.bool_(), [True, False, None]),
    "text": (pa.string(), ["", "a", "b", "ab", "ba", "a" * 8, "a" * 9, "a" * 16, "abcdefgh1", "abcdefgh2", "ä", None]),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\0", b"a", b"x" * 70_000, b"x" * 70_001, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal(10) ** 30, None]),
    "day": (pa.date32(), [date(2026, 1, 1), date(2026, 1, 2), None]),
    "time": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), None]),
}


def numbers_of(**columns: pa.Array) -> np.ndarray:
    count = len(next(iter(columns.values())))
    header = {"_tid": pa.array([1] * count), "_stime": pa.array([5] * count), "_origin": pa.array([0] * count)}
    rows = pa.RecordBatch.from_arrays([*header.values(), *columns.values()], names=[*header, *columns])
    ones = np.ones(count, np.int64)
    return row_numbers(rows, Header(np.zeros(count, np.int32), 5 * ones, ones))


@pytest.mark.parametrize("kind", VALUES)
def test_different_values_have_different_numbers_and_the_same_the_same(kind: str) -> None:
    arrow, values = VALUES[kind]
    numbers = numbers_of(x=pa.array(values, arrow))
    assert len(set(numbers.tolist())) == len(values)
    sliced = pa.array([values[0], *values, values[0]], arrow).slice(1, len(values))
    assert (numbers_of(x=sliced) == numbers).all()
    often = pa.array(values * 1_000, arrow)  # looked at once each, if they are texts
    assert (numbers_of(x=often) == np.tile(numbers, 1_000)).all()


@pytest.mark.parametrize("kind", VALUES)
def test_a_column_without_any_value_has_numbers_too(kind: str) -> None:
    nothing = numbers_of(x=pa.nulls(3_000, VALUES[kind][0]))
    assert len(set(nothing.tolist())) == 1


def test_columns_are_not_interchangeable_and_floating_point_does_not_count() -> None:
    one, two = pa.array([1, 2]), pa.array([2, 1])
    assert not (numbers_of(x=one, y=two) == numbers_of(x=two, y=one)).any()
    assert (numbers_of(x=one, y=pa.array([0.6, 0.1])) == numbers_of(x=one, y=pa.array([0.6000000000000001, 0.2]))).all()


def test_each_part_of_the_identity_counts() -> None:
    rows = pa.record_batch({"_tid": [0], "_stime": [0], "_origin": [0]})
    headers = [(0, 5, 1), (1, 5, 1), (0, 6, 1), (0, 5, 2), (0, 1, 5)]
    found = {
        int(row_numbers(rows, Header(np.array([code], np.int32), np.array([time]), np.array([tid])))[0])
        for code, time, tid in headers
    }
    assert len(found) == len(headers)


# --- at an inlet ---------------------------------------------------------------------------------------------------

Entry = tuple[int, int, int, int]
"""Code of the origin, stream time, number, value."""


def stored(entries: list[Entry]) -> pa.RecordBatch:
    codes, times, numbers, values = zip(*entries, strict=True) if entries else ((), (), (), ())
    return pa.record_batch(
        {
            "_tid": pa.array(numbers, pa.int64()),
            "_stime": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array(codes, pa.int32()),
            "x": pa.array(values, pa.int64()),
        }
    )


class Compared:
    """An inlet that reads two copies; it can be opened again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.open()

    def open(self) -> None:
        self.store = Store.open(self._path)
        spec = LogSpec(
            name="s",
            schema=pa.schema([("x", pa.int64())]),
            origins=ORIGINS,
            kind="journal",
            retention_us=1 << 60,
            limit_bytes=1 << 30,
        )
        self.inlet = JournalInlet(self.store, self.store.create_log(spec), clock=lambda: 0)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def answered(self, copy: str, first_id: int = 1, incarnation: str = "i", **floors: int) -> None:
        event = CopyAnswered(copy=copy, incarnation=incarnation, first_id=first_id, floors=floors)
        self.inlet.answered(event)

    def arrived(self, copy: str, first_id: int, entries: list[Entry], incarnation: str = "i", **promises: int) -> None:
        self.inlet.arrived(copy, incarnation, first_id, stored(entries), promises)

    @property
    def alarms(self) -> int:
        told = self.inlet.alarms()
        assert told is not None
        return told.count


@pytest.fixture
def compared(tmp_path: Path) -> Iterator[Compared]:
    made = Compared(tmp_path / "s.db")
    yield made
    made.store.close()


def test_a_copy_that_diverges_raises_an_alarm_with_stream_interval_and_copies(
    compared: Compared, caplog: pytest.LogCaptureFixture
) -> None:
    for copy, value in (("wisc", 7), ("mit", 8)):
        compared.answered(copy)
        compared.arrived(copy, 1, [(0, 5, 1, 1), (1, 6, 1, 1), (0, I + 1, 2, value)], a=2 * I, b=2 * I)
    told = compared.inlet.alarms()
    assert told is not None
    assert told.count == 1
    (alarm,) = told.latest
    assert (alarm.stream, alarm.origin) == ("s", "a")
    assert (alarm.start, alarm.end) == ("1970-01-01 00:00:10.000000", "1970-01-01 00:00:20.000000")
    assert {copy: each.rows for copy, each in alarm.copies.items()} == {"mit": 1, "wisc": 1}
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "Copies of s differ in the tuples of a" in line.getMessage()


def test_what_is_sent_again_is_counted_once(compared: Compared) -> None:
    entries: list[Entry] = [(0, 1, 1, 1), (0, 2, 2, 2), (0, 3, 3, 3)]
    for copy in ("x", "y"):
        compared.answered(copy)
    compared.arrived("x", 1, entries, a=I)
    compared.arrived("y", 1, entries[:2])
    compared.answered("y", first_id=2)
    compared.arrived("y", 2, entries[1:], a=I)
    assert compared.alarms == 0


def test_a_restart_skips_what_it_may_have_had_and_compares_what_follows(compared: Compared) -> None:
    for copy in ("x", "y"):
        compared.answered(copy)
        compared.arrived(copy, 1, [(0, 5, 1, 1)])
    compared.reopen()
    for copy, value in (("x", 1), ("y", 2)):
        compared.answered(copy, first_id=2)
        compared.arrived(copy, 2, [(0, 6, 2, value)], a=I)  # in the interval that began before
    assert compared.alarms == 0
    for copy, value in (("x", 1), ("y", 2)):
        compared.arrived(copy, 3, [(0, I + 6, 3, value)], a=2 * I)
    assert compared.alarms == 1


@pytest.mark.parametrize("seed", range(15))
def test_equal_copies_raise_no_alarm_whatever_comes_and_goes(compared: Compared, seed: int) -> None:
    """Copies in different orders; asked again, trimmed, with new incarnations; the reader restarts."""
    chance = Random(seed)
    logs = {copy: _shuffled(chance) for copy in ("x", "y")}
    at = dict.fromkeys(logs, 0)
    life = dict.fromkeys(logs, 0)
    for copy in logs:
        compared.answered(copy, incarnation="0")
    while any(at[copy] < len(logs[copy]) for copy in logs):
        copy = chance.choice(sorted(logs))
        end = min(len(logs[copy]), at[copy] + chance.randrange(1, 40))
        later = [entry[1] for entry in logs[copy][end:]]
        promise = min(later, default=100 * I)
        piece = logs[copy][at[copy] : end]
        compared.arrived(copy, at[copy] + 1, piece, incarnation=str(life[copy]), a=promise, b=promise)
        at[copy] = end
        match chance.randrange(12):
            case 0:
                compared.reopen()
                for each in logs:
                    compared.answered(each, first_id=at[each] + 1, incarnation=str(life[each]))
            case 1:  # the log goes, and is computed anew, without what this reader had acknowledged
                life[copy] += 1
                trimmed = chance.randrange(at[copy] + 1)
                compared.answered(copy, first_id=trimmed + 1, incarnation=str(life[copy]))
                at[copy] = trimmed
            case 2:  # cut off: some is skipped, and the floor says so
                skipped = min(len(logs[copy]), at[copy] + 10)
                gone = logs[copy][at[copy] : skipped]
                floors = {origin: max((e[1] + 1 for e in gone if e[0] == code), default=0)
                          for code, origin in enumerate(ORIGINS)}  # fmt: skip
                compared.answered(copy, first_id=skipped + 1, incarnation=str(life[copy]), **floors)
                at[copy] = skipped
    assert compared.alarms == 0, f"seed {seed}"


def _shuffled(chance: Random) -> list[Entry]:
    entries = [(number % 2, number * I // 30, number, number) for number in range(1, 400)]
    return sorted(entries, key=lambda each: each[1] + chance.random() * 2 * I)

"""Made-up rows: the same for the same seed, whatever was asked before, and in time."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.columns import arrow_schema
from anabranch.connectors.feed import Over, Rows, Wait
from anabranch.connectors.generator import Generator
from anabranch.connectors.paced import BLOCK_ROWS
from anabranch.errors import ConfigError
from anabranch.model.times import SECOND
from anabranch.query.connectors import GeneratorFeed, Values
from anabranch.query.specs import feed_from

T0 = 1_767_225_600 * SECOND
ALL = arrow_schema(
    [
        ("a", "boolean"),
        ("b", "tinyint"),
        ("c", "int"),
        ("d", "bigint"),
        ("e", "float"),
        ("f", "double"),
        ("g", "string"),
        ("h", "binary"),
        ("i", "date"),
        ("j", "decimal(9,2)"),
        ("t", "timestamp"),
    ]
)


def generator(spec: str = "generator", schema: pa.Schema = ALL, time: str | None = "t") -> Generator:
    feed = feed_from(spec)
    assert isinstance(feed, GeneratorFeed)
    return Generator(feed, schema, time)


def one_row(made: Generator, index: int) -> pa.RecordBatch:
    return made.rows(index, np.array([T0 + index], dtype=np.int64))


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 10**12), min_size=1, max_size=4), st.integers(0, 10**12))
def test_a_row_is_a_function_of_seed_and_number_alone(seed: int, before: list[int], index: int) -> None:
    used = generator(f"generator:seed={seed}")
    for other in before:
        one_row(used, other)
    assert one_row(used, index).equals(one_row(generator(f"generator:seed={seed}"), index))


@given(st.integers(1, BLOCK_ROWS), st.integers(1, 2000))
def test_rows_do_not_depend_on_how_many_are_taken_at_once(skip: int, rows: int) -> None:
    """Killed after ``skip`` rows and begun again, or not: the rest is the same."""
    spec = f"generator:rate=max,start=2026-01-01,rows={skip + rows}"
    whole, rest = generator(spec), generator(spec)
    whole.begin(1, T0)
    rest.begin(skip + 1, T0)
    assert all_rows(whole).slice(skip).equals(all_rows(rest))


def all_rows(made: Generator) -> pa.Table:
    batches = []
    while isinstance(taken := made.take(T0), Rows):
        batches.append(taken.batch)
    assert taken == Over(close=True)
    return pa.Table.from_batches(batches).combine_chunks()


def test_other_seeds_and_columns_are_other_rows() -> None:
    times = np.full(1000, T0, dtype=np.int64)
    schema = arrow_schema([("x", "double"), ("y", "double")])
    one, two = (generator(f"generator:seed={seed}", schema, None).rows(0, times) for seed in (1, 2))
    assert not one.column("x").equals(two.column("x"))
    assert not one.column("x").equals(one.column("y"))


def test_the_rows_of_a_seed_never_change() -> None:
    """A newer version of Anabranch or NumPy must go on with the same rows. Sines may differ in their last bit."""
    columns = "c=sequence(5,2),d=uniform(-9000000000000000000,9000000000000000000),f=uniform(-1,1)"
    made = generator(f"generator:seed=7,{columns}")
    batch = made.rows(0, np.arange(BLOCK_ROWS, dtype=np.int64) + T0)
    text = "\n".join(str(column.to_pylist()) for column in batch.columns)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "519c4a98b5e7522a"


def test_values_are_what_was_asked_for() -> None:
    spec = "generator:b=uniform(1,6),g=choice(x,y),f=normal(10,2),j=uniform(1,2),d=sequence(100,-1),c=normal(0,1e12)"
    batch = generator(spec).rows(0, np.full(BLOCK_ROWS, T0, dtype=np.int64))
    rolls = batch.column("b").to_numpy()
    assert (rolls.min(), rolls.max()) == (1, 6)
    assert abs(np.bincount(rolls)[1:] / BLOCK_ROWS - 1 / 6).max() < 0.02
    assert set(batch.column("g").to_pylist()) == {"x", "y"}
    normal = batch.column("f").to_numpy()
    assert abs(normal.mean() - 10) < 0.1
    assert abs(normal.std() - 2) < 0.1
    assert 1 <= min(batch.column("j").to_pylist()) <= max(batch.column("j").to_pylist()) <= 2
    assert batch.column("d").to_pylist()[:3] == [100, 99, 98]
    assert set(batch.column("c").to_pylist()) >= {2**31 - 1, -(2**31)}
    batch.validate(full=True)


def test_a_choice_that_does_not_fit_is_told_with_the_column() -> None:
    with pytest.raises(ConfigError, match=r"choice\(x\) does not fit column 'c'"):
        Generator(GeneratorFeed(columns=(("c", Values("choice", ("x",))),)), ALL, None)


def test_times_count_from_the_start() -> None:
    made = generator("generator:rate=10,start=2026-01-01T00:00:00Z")
    times = pa.array(made._times(5, 3, T0 + 999)).to_pylist()
    assert times == [T0 + 500_000, T0 + 600_000, T0 + 700_000]


def test_without_a_start_times_are_when_the_rows_are_due() -> None:
    made = generator("generator:rate=10")
    made.begin(1, T0)
    times = [time for seconds in (0, 1) for time in taken_times(made, T0 + seconds * SECOND)]
    assert times == [T0 + index * 100_000 for index in range(11)]


def taken_times(made: Generator, now_us: int) -> list[int]:
    taken = made.take(now_us)
    assert isinstance(taken, Rows)
    return list(taken.batch.column("t").cast(pa.int64()).to_pylist())


def test_a_rate_is_kept_and_rows_are_sent_together() -> None:
    made = generator("generator:rate=1000")
    made.begin(1, T0)
    now, counts = T0, []
    while now < T0 + SECOND:
        taken = made.take(now)
        if isinstance(taken, Wait):
            now += round(taken.seconds * SECOND)
        else:
            assert isinstance(taken, Rows)
            counts.append(taken.batch.num_rows)
    assert sum(counts) == pytest.approx(1000, abs=30)
    assert len(counts) <= 51


def test_one_row_a_minute_waits_a_minute() -> None:
    made = generator("generator:rate=0.0166666666")
    made.begin(1, T0)
    assert isinstance(made.take(T0), Rows)
    taken = made.take(T0)
    assert isinstance(taken, Wait)
    assert taken.seconds == pytest.approx(60, abs=0.1)


def test_a_generator_that_was_held_up_does_not_catch_up_for_ever() -> None:
    made = generator("generator:rate=1000")
    made.begin(1, T0)
    assert isinstance(made.take(T0), Rows)
    assert made.lag_us(T0 + 60 * SECOND) > 59 * SECOND
    taken = made.take(T0 + 60 * SECOND)
    assert isinstance(taken, Rows)
    assert taken.batch.num_rows == 1
    assert made.lag_us(T0 + 60 * SECOND) == 0


def test_a_limit_ends_it() -> None:
    made = generator("generator:rate=max,rows=5,then=wait")
    made.begin(4, T0)
    taken = made.take(T0)
    assert isinstance(taken, Rows)
    assert taken.batch.num_rows == 2
    assert made.take(T0) == Over(close=False)
    assert made.position() == "row 5"

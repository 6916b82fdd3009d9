"""The streams of Nexmark: the same for the same seed, by number alone, and of the shape that the benchmark wants."""

from __future__ import annotations

import hashlib
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.columns import arrow_schema
from anabranch.connectors.feed import Over, Rows, Wait
from anabranch.connectors.nexmark import CYCLE, FIRST_ID, NexmarkRows, rows_of
from anabranch.connectors.paced import BLOCK_ROWS
from anabranch.model.times import SECOND
from anabranch.query.connectors import NEXMARK, NexmarkFeed
from anabranch.query.specs import feed_from

SCHEMAS = {stream: arrow_schema(list(columns.items())) for stream, columns in NEXMARK.items()}


def feed(text: str) -> NexmarkFeed:
    found = feed_from(text)
    assert isinstance(found, NexmarkFeed)
    return found


def table(stream: str, events: int, options: str = "") -> pa.Table:
    made = NexmarkRows(feed(f"nexmark:{stream},events={events}{options}"), SCHEMAS[stream])
    made.begin(1, 0)
    batches = []
    while isinstance(taken := made.take(0), Rows):
        batches.append(taken.batch)
    assert taken == Over(close=True)
    return pa.Table.from_batches(batches, SCHEMAS[stream])


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {stream: table(stream, 100_000) for stream in NEXMARK}


@given(st.sampled_from(sorted(NEXMARK)), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 2**63 - 1))
def test_a_row_is_a_function_of_seed_and_number_alone(stream: str, before: int, index: int, seed: int) -> None:
    used, fresh = (NexmarkRows(feed(f"nexmark:{stream},seed={seed}"), SCHEMAS[stream]) for _ in range(2))
    used.made(before, 1, 0)
    assert used.made(index, 1, 0).equals(fresh.made(index, 1, 0))


def test_rows_do_not_change_between_versions() -> None:
    digest = hashlib.sha256()
    for stream in sorted(NEXMARK):
        for column in table(stream, 1_000, ",seed=7").columns:
            whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            digest.update(repr(whole.to_pylist()).encode())
    assert digest.hexdigest()[:16] == "7f0d0408bb2a8ecd"


@given(st.integers(0, 10_000))
def test_the_streams_share_the_events(events: int) -> None:
    assert sum(rows_of(stream, events) for stream in NEXMARK) == events


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(tables: dict[str, pa.Table]) -> None:
    assert {name: rows.num_rows for name, rows in tables.items()} == {"person": 2_000, "auction": 6_000, "bid": 92_000}
    times = sorted(time for rows in tables.values() for time in rows["dateTime"].cast(pa.int64()).to_pylist())
    assert times == list(range(times[0], times[0] + 100 * 100_000, 100))


def test_whoever_sells_or_bids_is_there_already(tables: dict[str, pa.Table]) -> None:
    came = dict(zip(*(tables["person"][name].to_pylist() for name in ("id", "dateTime")), strict=True))
    opened = dict(zip(*(tables["auction"][name].to_pylist() for name in ("id", "dateTime")), strict=True))
    for stream, who in (("auction", "seller"), ("bid", "bidder")):
        for person, at in zip(tables[stream][who].to_pylist(), tables[stream]["dateTime"].to_pylist(), strict=True):
            assert came[person] < at
    for auction, at in zip(tables["bid"]["auction"].to_pylist(), tables["bid"]["dateTime"].to_pylist(), strict=True):
        assert opened[auction] < at


def test_some_are_hot(tables: dict[str, pa.Table]) -> None:
    bids = tables["bid"]
    on_hot = sum(1 for auction in bids["auction"].to_pylist() if (auction - FIRST_ID) % 100 == 0)
    assert 0.45 < on_hot / bids.num_rows < 0.56
    by_hot = sum(1 for bidder in bids["bidder"].to_pylist() if (bidder - FIRST_ID) % 100 == 1)
    assert 0.72 < by_hot / bids.num_rows < 0.79
    channels = Counter(channel.partition("-")[0] for channel in bids["channel"].to_pylist())
    assert set(channels) == {"Google", "Facebook", "Baidu", "Apple", "channel"}
    assert 0.45 < channels["channel"] / bids.num_rows < 0.55


def test_values_are_in_their_ranges(tables: dict[str, pa.Table]) -> None:
    prices = tables["bid"]["price"]
    assert (pc.min(prices).as_py(), pc.max(prices).as_py()) == (100, 99_770_000)
    assert set(tables["auction"]["category"].to_pylist()) == {10, 11, 12, 13, 14}
    lasts = pc.subtract(tables["auction"]["expires"], tables["auction"]["dateTime"]).cast(pa.int64())
    assert 0 < pc.min(lasts).as_py() < pc.max(lasts).as_py() < SECOND // 2
    assert pc.all(pc.greater(tables["auction"]["reserve"], tables["auction"]["initialBid"])).as_py()
    urls = tables["bid"]["url"]
    assert all(len(url.split("/")) == 7 for url in urls.slice(0, 100).to_pylist())


def test_another_seed_gives_other_rows() -> None:
    assert table("bid", 1_000) != table("bid", 1_000, ",seed=1")
    assert table("bid", 1_000)["dateTime"] == table("bid", 1_000, ",seed=1")["dateTime"]


def test_it_goes_on_where_it_was() -> None:
    whole = table("bid", 40_000)
    assert whole.num_rows > 2 * BLOCK_ROWS
    made = NexmarkRows(feed("nexmark:bid,events=40000"), SCHEMAS["bid"])
    made.begin(20_001, 0)
    taken = made.take(0)
    assert isinstance(taken, Rows)
    assert pa.Table.from_batches([taken.batch]).equals(whole.slice(20_000, taken.batch.num_rows))
    assert taken.place(0) == "row 20001 of the stream bid"


def test_the_rate_is_of_all_events_together() -> None:
    made = NexmarkRows(feed("nexmark:bid,rate=1000"), SCHEMAS["bid"])
    made.begin(1, 0)
    taken = made.take(SECOND)
    assert isinstance(taken, Rows)
    assert taken.batch.num_rows == 1_000 * 46 // CYCLE + 1
    assert isinstance(made.take(SECOND), Wait)


def test_a_source_may_have_some_of_the_columns_in_any_order() -> None:
    query = ab.Query("q")
    source = query.source(
        "b", "price bigint, AUCTION bigint, dateTime timestamp", time="dateTime", feed="nexmark:bid,events=5"
    )
    query.output("o", source)
    schema = arrow_schema([("price", "bigint"), ("AUCTION", "bigint")])
    assert query.validate() == []
    assert NexmarkRows(feed("nexmark:bid"), schema).made(0, 2, 0).schema == schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("prize bigint", "feed: the stream bid has no column 'prize'."),
        ("price int", "feed: 'price' of the stream bid is a bigint, not an int."),
    ],
)
def test_a_column_that_the_stream_does_not_have_is_told(schema: str, message: str) -> None:
    query = ab.Query("q")
    query.output("o", query.source("b", schema, feed="nexmark:bid"))
    (problem,) = query.validate()
    assert (problem.code, problem.message) == ("bad-connector", message)
    assert problem.remedy


def test_a_stream_that_is_not_there_is_told() -> None:
    with pytest.raises(ab.ConfigError, match=r"'bids' is not possible here. Candidates: bid"):
        feed_from("nexmark:bids")

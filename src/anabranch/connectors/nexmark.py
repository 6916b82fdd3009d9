"""The three streams of the Nexmark benchmark: people, the auctions they open, and bids on these.

Events of all streams have one numbering: of every 50, the first is a person, the next three are auctions, and 46 are
bids. So row n of a stream is a known event, and its time, the people and auctions that are there when it happens, and
with Philox bits all else follow from n and the seed: any block of any stream can be made by itself, on any machine.
Many auctions are of one seller for a while, and many bids go to one auction and come from one bidder, as the benchmark
wants it. Numbers are computed in integers, so that no machine rounds them otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from anabranch.connectors.paced import BLOCK_ROWS, PacedRows
from anabranch.query.connectors import NexmarkFeed

Numbers = npt.NDArray[np.int64]

CYCLE: Final = 50
"""Events after which the streams take turns anew."""
PLACES: Final = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46)}
"""Where in a cycle the events of a stream are: the first, and how many."""

FIRST_ID: Final = 1_000
"""Of people and of auctions."""
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
ACTIVE_PEOPLE: Final = 1_000
"""Sellers and bidders are among so many that came last."""
OPEN_AUCTIONS: Final = 100
"""Bids go to one of so many that were opened last; an auction is open for about as long as so many are opened."""
HOT_IDS: Final = 100
"""One id of so many in a row is the hot one, until the next of them is there."""
HOT_AUCTION: Final = 2
HOT_SELLER: Final = 4
HOT_BIDDER: Final = 4
HOT_CHANNEL: Final = 2
"""All but one of so many go to what is hot."""
CHANNELS: Final = 10_000
DECADES: Final = 6
"""Prices lie between 100 and 10 to this power times that, evenly in their logarithms."""

_HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
_FIRST_NAMES: Final = tuple("Ada Ben Cleo Dan Eve Finn Gia Hugo Ida Jon Kai".split())
_LAST_NAMES: Final = tuple("Abel Brook Carr Dunn Ellis Frost Gray Hale Irwin".split())
_CITIES: Final = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
)
_STEPS: Final = 1_000
"""Steps of a price within a decade."""
_EXTRA: Final = {"person": 40, "auction": 60, "bid": 30}


def rows_of(stream: str, events: int) -> int:
    """How many of the first events are of this stream."""
    first, count = PLACES[stream]
    cycles, rest = divmod(events, CYCLE)
    return cycles * count + min(max(rest - first, 0), count)


class NexmarkRows(PacedRows):
    """The rows of one stream, with the columns that the source wants."""

    def __init__(self, feed: NexmarkFeed, schema: pa.Schema) -> None:
        share = PLACES[feed.stream][1] / CYCLE
        super().__init__(
            rate=None if feed.rate is None else feed.rate * share,
            limit=None if feed.events is None else rows_of(feed.stream, feed.events),
            close=feed.then == "close",
            name=f"the stream {feed.stream}",
        )
        self._feed: Final = feed
        self._schema: Final = schema
        self._block: tuple[int, pa.RecordBatch | None] = (-1, None)

    def made(self, first: int, count: int, now_us: int) -> pa.RecordBatch:
        block, offset = divmod(first, BLOCK_ROWS)
        if self._block[0] != block:
            self._block = (block, self._made_block(block))
        batch = self._block[1]
        assert batch is not None
        return batch.slice(offset, count)

    def _made_block(self, block: int) -> pa.RecordBatch:
        rows = _Block(self._feed, block)
        arrays = [rows.column(field.name).cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Block:
    """One block of rows of one stream, column by column."""

    def __init__(self, feed: NexmarkFeed, block: int) -> None:
        self._feed = feed
        self._number = block
        self._rows: Numbers = np.arange(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS, dtype=np.int64)
        first, count = PLACES[feed.stream]
        self._cycles = self._rows // count
        self._events = self._cycles * CYCLE + first + self._rows % count

    def column(self, name: str) -> pa.Array:
        return _COLUMNS[self._feed.stream][name.lower()](self)

    # --- random numbers --------------------------------------------------------------------------------------------

    def _bits(self, use: str, words: int = 1) -> npt.NDArray[np.uint64]:
        """So many words of bits for each row, other ones for every use."""
        use_key = xxhash.xxh64_intdigest(f"nexmark {self._feed.stream} {use}".encode())
        key = np.array([self._feed.seed, use_key], dtype=np.uint64)
        counter = np.array([0, self._number, 0, 0], dtype=np.uint64)
        return np.random.Philox(key=key, counter=counter).random_raw(words * BLOCK_ROWS)

    def _below(self, use: str, limit: Numbers | int) -> Numbers:
        """Whole numbers from 0 to below the limit."""
        bits = self._bits(use) >> np.uint64(11)
        return (bits % np.asarray(limit, dtype=np.uint64)).astype(np.int64)

    def _letters(self, use: str, length: int) -> pa.Array:
        words = -(-length // 8)
        every = self._bits(use, words).astype("<u8").view(np.uint8).reshape(BLOCK_ROWS, words * 8)
        letters = np.ascontiguousarray(every[:, :length] % np.uint8(26) + np.uint8(ord("a")))
        offsets = np.arange(0, (BLOCK_ROWS + 1) * length, length, dtype=np.int32)
        return pa.StringArray.from_buffers(BLOCK_ROWS, pa.py_buffer(offsets), pa.py_buffer(letters))

    def _chosen(self, use: str, values: tuple[str, ...]) -> pa.Array:
        return pa.array(values).take(pa.array(self._below(use, len(values))))

    def _price(self, use: str) -> Numbers:
        steps = self._below(use, DECADES * _STEPS)
        return _decade()[steps % _STEPS] * 10 ** (steps // _STEPS) // 10_000

    def _recent(self, use: str, newest: Numbers, hot: int, reach: int, hot_offset: int = 0) -> Numbers:
        """An id: mostly the hot one, otherwise one of the last."""
        is_hot = self._below(f"{use} is hot", hot) > 0
        back = self._below(f"{use} among the last", np.minimum(newest, reach - 1) + 1)
        hot_ids = np.minimum(newest // HOT_IDS * HOT_IDS + hot_offset, newest)
        return FIRST_ID + np.where(is_hot, hot_ids, newest - back)

    # --- columns ---------------------------------------------------------------------------------------------------

    def times(self) -> Numbers:
        return self._feed.start_us + self._events * self._feed.every_us

    def date_time(self) -> pa.Array:
        return _moments(self.times())

    def id(self) -> pa.Array:
        return pa.array(FIRST_ID + self._rows)

    def extra(self) -> pa.Array:
        return self._letters("extra", _EXTRA[self._feed.stream])

    def name(self) -> pa.Array:
        return _joined(self._chosen("first name", _FIRST_NAMES), " ", self._chosen("last name", _LAST_NAMES))

    def email_address(self) -> pa.Array:
        return _joined(self._letters("mail box", 7), "@", self._letters("mail host", 5), ".com")

    def credit_card(self) -> pa.Array:
        digits = [_padded(self._below(f"card {part}", 10_000)) for part in range(4)]
        return pc.binary_join_element_wise(*digits, " ")

    def city(self) -> pa.Array:
        return self._chosen("city", tuple(city for city, _ in _CITIES))

    def state(self) -> pa.Array:
        return self._chosen("city", tuple(state for _, state in _CITIES))

    def item_name(self) -> pa.Array:
        return self._letters("item", 12)

    def description(self) -> pa.Array:
        return self._letters("description", 50)

    def initial_bid(self) -> pa.Array:
        return pa.array(self._price("initial bid"))

    def reserve(self) -> pa.Array:
        return pa.array(self._price("initial bid") + self._price("reserve"))

    def expires(self) -> pa.Array:
        open_us = OPEN_AUCTIONS * CYCLE // PLACES["auction"][1] * self._feed.every_us
        return _moments(self.times() + 1 + self._below("expires", 2 * open_us))

    def seller(self) -> pa.Array:
        return pa.array(self._recent("seller", self._cycles, HOT_SELLER, ACTIVE_PEOPLE))

    def category(self) -> pa.Array:
        return pa.array(FIRST_CATEGORY + self._below("category", CATEGORIES))

    def auction(self) -> pa.Array:
        newest = (self._cycles + 1) * PLACES["auction"][1] - 1
        return pa.array(self._recent("auction", newest, HOT_AUCTION, OPEN_AUCTIONS))

    def bidder(self) -> pa.Array:
        return pa.array(self._recent("bidder", self._cycles, HOT_BIDDER, ACTIVE_PEOPLE, hot_offset=1))

    def price(self) -> pa.Array:
        return pa.array(self._price("price"))

    def channel(self) -> pa.Array:
        cold = _joined("channel-", pa.array(self._below("channel", CHANNELS)).cast(pa.string()))
        return pc.if_else(pa.array(self._is_hot_channel()), self._chosen("hot channel", _HOT_CHANNELS), cold)

    def url(self) -> pa.Array:
        folders = [self._letters(f"folder {part}", 5) for part in range(3)]
        path = _joined("https://www.nexmark.com/", pc.binary_join_element_wise(*folders, "/"), "/item.htm?query=1")
        channel = _joined(path, "&channel_id=", pa.array(self._below("channel", CHANNELS)).cast(pa.string()))
        return pc.if_else(pa.array(self._is_hot_channel()), path, channel)

    def _is_hot_channel(self) -> npt.NDArray[np.bool_]:
        return self._below("channel is hot", HOT_CHANNEL) > 0


_Maker = Callable[[_Block], pa.Array]

_COLUMNS: Final[dict[str, dict[str, _Maker]]] = {
    "person": {
        "id": _Block.id,
        "name": _Block.name,
        "emailaddress": _Block.email_address,
        "creditcard": _Block.credit_card,
        "city": _Block.city,
        "state": _Block.state,
        "datetime": _Block.date_time,
        "extra": _Block.extra,
    },
    "auction": {
        "id": _Block.id,
        "itemname": _Block.item_name,
        "description": _Block.description,
        "initialbid": _Block.initial_bid,
        "reserve": _Block.reserve,
        "datetime": _Block.date_time,
        "expires": _Block.expires,
        "seller": _Block.seller,
        "category": _Block.category,
        "extra": _Block.extra,
    },
    "bid": {
        "auction": _Block.auction,
        "bidder": _Block.bidder,
        "price": _Block.price,
        "channel": _Block.channel,
        "url": _Block.url,
        "datetime": _Block.date_time,
        "extra": _Block.extra,
    },
}


@cache
def _decade() -> Numbers:
    """Ten to the powers 0, 0.001 … 0.999, in millionths; by decimals, which no machine rounds otherwise."""
    powers = [Decimal(10) ** (Decimal(step) / _STEPS) for step in range(_STEPS)]
    return np.array([int(power * 1_000_000) for power in powers], dtype=np.int64)


def _moments(us: Numbers) -> pa.Array:
    return pa.array(us).cast(pa.timestamp("us", "UTC"))


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _padded(numbers: Numbers) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 4, "0")

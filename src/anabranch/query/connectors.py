"""What brings rows into a source and what carries an output elsewhere, as frozen values.

A *feed* brings rows into a source; a *writer* carries an output elsewhere. Both are part of a query's text, because
that is where people want to name them, and not part of its identity: a stream is the same wherever its rows come from
and go to, so a feed or writer may be changed on an old state directory. Here they are only data; ``connectors`` and
``engine`` carry them out, and ``specs`` reads and writes them as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Options = tuple[tuple[str, str], ...]
"""Names and values that are handed on as they are, sorted by name."""


@dataclass(frozen=True, slots=True)
class Values:
    """How a generator makes the values of a column: ``uniform(1,6)``, ``choice(a,b)``, ``sequence``."""

    kind: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorFeed:
    """Made-up rows: row n is a function of seed and n. ``rate`` is in rows/s, None for as fast as possible."""

    rate: float | None = 100.0
    seed: int = 0
    rows: int | None = None
    start_us: int | None = None
    every_us: int | None = None
    then: str = "close"
    producer: str | None = None
    columns: tuple[tuple[str, Values], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFeed:
    """The rows of a file, of the files of a directory, or of those that a pattern matches, in the order of names."""

    path: str
    format: str | None = None
    speed: float | None = None
    then: str = "close"
    producer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFeed:
    """A streaming source of Spark. ``lane`` and ``number`` are expressions over its columns that identify a row."""

    format: str
    schema: str | None = None
    columns: str | None = None
    lane: str | None = None
    number: str | None = None
    producer: str | None = None
    options: Options = ()


NEXMARK: Final[Mapping[str, Mapping[str, str]]] = {
    "person": {
        "id": "bigint",
        "name": "string",
        "emailAddress": "string",
        "creditCard": "string",
        "city": "string",
        "state": "string",
        "dateTime": "timestamp",
        "extra": "string",
    },
    "auction": {
        "id": "bigint",
        "itemName": "string",
        "description": "string",
        "initialBid": "bigint",
        "reserve": "bigint",
        "dateTime": "timestamp",
        "expires": "timestamp",
        "seller": "bigint",
        "category": "bigint",
        "extra": "string",
    },
    "bid": {
        "auction": "bigint",
        "bidder": "bigint",
        "price": "bigint",
        "channel": "string",
        "url": "string",
        "dateTime": "timestamp",
        "extra": "string",
    },
}
"""The three streams of the Nexmark benchmark and their columns."""

NEXMARK_START_US: Final = 1_767_225_600_000_000  # 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkFeed:
    """A stream of the Nexmark benchmark. Events of all three are numbered together; ``rate`` is in events/s."""

    stream: str
    events: int | None = None
    rate: float | None = None
    seed: int = 0
    start_us: int = NEXMARK_START_US
    every_us: int = 100
    then: str = "close"
    producer: str | None = None


Feed = GeneratorFeed | FileFeed | SparkFeed | NexmarkFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLinesWriter:
    """One file that grows, a JSON object per tuple."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWriter:
    """A directory of files; one is written when there are ``rows`` new tuples, or the oldest waits for ``every``."""

    path: str
    rows: int = 1_000_000
    every_us: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleWriter:
    """Standard output of the node, for people who look."""

    form: str = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWriter:
    """A batch writer of Spark, in append mode."""

    format: str
    guarantee: str = "exactly-once"
    rows: int = 100_000
    every_us: int = 1_000_000
    options: Options = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWriter:
    """A table of a database in which each key has its newest tuple; without a key, every tuple is a row."""

    database: str
    table: str
    key: tuple[str, ...] = ()
    rows: int = 10_000
    every_us: int = 200_000

    @property
    def engine(self) -> str:
        return database_engine(self.database)


Writer = JsonLinesWriter | ParquetWriter | ConsoleWriter | SparkWriter | TableWriter


def writer_key(writer: Writer) -> str:
    """What a writer writes to: equal for two that would get into each other's way."""
    match writer:
        case JsonLinesWriter():
            return f"jsonl:{writer.path}"
        case ParquetWriter():
            return f"parquet:{writer.path}"
        case ConsoleWriter():
            return "console"
        case SparkWriter():
            options = {name.lower(): value for name, value in writer.options}
            target = options.get("path") or options.get("dbtable") or ""
            where = options.get("url", "")
            return ":".join(part for part in ("spark", writer.format, where, target) if part)
        case TableWriter():
            return f"table:{without_password(writer.database)}:{writer.table}"


def is_database(url: str) -> bool:
    """Whether a text is the address of a database that we know."""
    return re.match(r"(sqlite|duckdb):.|postgres(ql)?://.", url) is not None


def database_engine(url: str) -> str:
    """``sqlite``, ``duckdb`` or ``postgresql``."""
    scheme = url.partition(":")[0]
    return "postgresql" if scheme == "postgres" else scheme


def without_password(url: str) -> str:
    """The address of a database as it may be shown and logged."""
    shown = re.sub(r"(://[^/@:]*):[^@/]*@", r"\1@", url)
    return re.sub(r"([?&])password=[^&]*&?", r"\1", shown).rstrip("?&")

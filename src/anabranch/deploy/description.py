"""A deployment file as it was written: TOML, read into plain models.

    [nodes]
    east = {address = "10.0.0.1:7700"}
    west = {address = "10.1.0.1:7700"}

    [queries.slow_paths]
    file = "slow_paths.yaml"
    mode = "race"
    on = ["east", "west"]
    entry = {ping = ["east", "west"], load = ["east", "west"]}

What cannot be read is noted and left out (``tables``). So no key is required here: ``validate`` asks for those that
must be there. What the names in the file refer to is not looked at, either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from anabranch.deploy import mistakes
from anabranch.deploy.mistakes import Report
from anabranch.deploy.tables import DurationUs, Names, RateBytes, Table, kind_of, load_tables, read_tables, wrong


def _entry(value: object) -> object:
    return value if isinstance(value, dict) else {"nodes": value}


def _settings(value: object) -> object:
    """Settings of Spark as texts. A dot in a key makes tables of it in TOML, unless it is quoted: both are meant."""
    return dict(_flat("", value)) if isinstance(value, dict) else value


def _flat(prefix: str, table: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, str | int | float):
            yield prefix + key, str(value)
        else:
            message = f"{prefix}{key} is {kind_of(value)}: {value!r}."
            raise wrong("wrong-type", message, "Write text, a number, true or false.")


class SparkTable(Table):
    """Which Spark a node uses, how far apart its batches begin while few rows wait, and settings of Spark's own."""

    master: str | None = None
    batch_interval_us: DurationUs | None = Field(default=None, alias="batch_interval")
    conf: Annotated[dict[str, str], BeforeValidator(_settings)] = Field(default_factory=dict)


class NodeTable(Table):
    """One node: where it listens, where it stands, how its Spark is set, where its state and its tables lie."""

    address: str = ""
    site: str = ""
    state: str | None = None
    tables: dict[str, str] = Field(default_factory=dict)
    spark: SparkTable = SparkTable()


class EntryTable(Table):
    """The entry points of a source, and where each of its producers, or its feed, is at home: the first of them,
    unless said. A feed may have several nodes, of which one at a time brings rows."""

    nodes: Names = ()
    producers: dict[str, str] = Field(default_factory=dict)
    feed: Names = ()
    takeover_us: DurationUs | None = Field(default=None, alias="takeover")


class QueryTable(Table):
    """One query: its file, its mode, and where each of its parts runs."""

    file: str = ""
    mode: str = ""
    on: Names = ()
    place: dict[str, Names] = Field(default_factory=dict)
    entry: dict[str, Annotated[EntryTable, BeforeValidator(_entry)]] = Field(default_factory=dict)
    write: dict[str, str] = Field(default_factory=dict)
    technique: str = ""


class LinkTable(Table):
    """How the way between two nodes, or between the nodes of two sites, is made to behave."""

    between: Names = ()
    delay_us: DurationUs | None = Field(default=None, alias="delay")
    jitter_us: DurationUs | None = Field(default=None, alias="jitter")
    rate_bytes_s: RateBytes | None = Field(default=None, alias="rate")


class Description(Table):
    """A whole file."""

    faults: bool = False
    spark: SparkTable = SparkTable()
    nodes: dict[str, NodeTable] = Field(default_factory=dict)
    queries: dict[str, QueryTable] = Field(default_factory=dict)
    links: list[LinkTable] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Draft:
    """A file as far as it could be read, and what could not be."""

    description: Description
    report: Report


def load(path: Path) -> Draft:
    return read(load_tables(path))


def read(data: Mapping[str, Any]) -> Draft:
    """The description that tables are, with all that is wrong in their form."""
    return Draft(*read_tables(Description, data, is_thing=_is_named))


def _is_named(path: mistakes.Path) -> bool:
    """Nodes and queries are there, and other parts of the file may name them, also if they cannot be read."""
    return len(path) == 2 and path[0] in ("nodes", "queries")

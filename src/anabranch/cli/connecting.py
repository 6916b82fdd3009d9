"""``--source NAME=FEED``, ``--output NAME=WRITER`` and ``--table NAME=PLACE``: they replace what the query itself
names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.errors import ConfigError

_VALUES: Final = {"--table": "FILE", "--source": "KIND:OPTION=VALUE,...", "--output": "KIND:OPTION=VALUE,..."}

if TYPE_CHECKING:
    from anabranch.query.builder import Query


def connect_query(query: Query, sources: Sequence[str], outputs: Sequence[str]) -> None:
    """Gives sources their feeds and outputs their writers; an output may be named several times."""
    for given in sources:
        name, spec = _split("--source", given)
        try:
            query.feed(name, spec)
        except ConfigError as error:
            raise _placed("--source", given, error) from error
    writers: dict[str, list[str]] = {}
    for given in outputs:
        name, spec = _split("--output", given)
        writers.setdefault(name, []).append(spec)
        try:
            query.write(name, writers[name])
        except ConfigError as error:
            raise _placed("--output", given, error) from error


def table_places(tables: Sequence[str]) -> dict[str, str]:
    """Where tables are, by name. A path begins where the command is run, as any on a command line does."""
    return {name: _absolute(place) for name, place in (_split("--table", given) for given in tables)}


def _absolute(place: str) -> str:
    from anabranch.query.connectors import is_database

    engine, _, path = place.partition(":")
    if not is_database(place):
        return str(Path(place).absolute())
    return f"{engine}:{Path(path).absolute()}" if engine in ("sqlite", "duckdb") else place


def _split(option: str, given: str) -> tuple[str, str]:
    name, equals, spec = given.partition("=")
    if not (name and equals and spec):
        raise ConfigError(f"{option} {given}: it has no name.", remedy=f"Write {option} NAME={_VALUES[option]}.")
    return name, spec


def _placed(option: str, given: str, error: ConfigError) -> ConfigError:
    return ConfigError(f"{option} {given}: {error.message}", remedy=error.remedy)

"""``--source NAME=FEED`` and ``--output NAME=WRITER``: they replace what the query itself names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError

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


def _split(option: str, given: str) -> tuple[str, str]:
    name, equals, spec = given.partition("=")
    if not (name and equals and spec):
        raise ConfigError(f"{option} {given}: it has no name.", remedy=f"Write {option} NAME=KIND:OPTION=VALUE,...")
    return name, spec


def _placed(option: str, given: str, error: ConfigError) -> ConfigError:
    return ConfigError(f"{option} {given}: {error.message}", remedy=error.remedy)

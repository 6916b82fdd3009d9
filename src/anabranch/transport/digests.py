"""Digests on the wire: what one copy of an output asks another, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from anabranch.core.telling import Range, Told
from anabranch.errors import ConfigError
from anabranch.transport import wire


class DigestPorts(Protocol):
    """What a node offers to the others that make the same outputs."""

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        """What its own copy has in these ranges, by origin; ``NodeUnreachable`` while it is starting."""
        ...


def request_message(asker: str, stream: str, asked: Mapping[str, Range]) -> wire.Message:
    return {
        "asker": asker,
        "stream": stream,
        "ranges": {origin: _range_message(each) for origin, each in asked.items()},
    }


def ranges_of(message: wire.Message) -> dict[str, Range]:
    return {origin: _range_of(said) for origin, said in _by_origin(message, "ranges").items()}


def answer_message(told: Mapping[str, Told]) -> wire.Message:
    return {
        "digests": {
            origin: _range_message(each.range)
            | {"starts": list(each.starts_us), "rows": list(each.rows), "totals": list(each.totals)}
            for origin, each in told.items()
        }
    }


def answer_of(message: wire.Message) -> dict[str, Told]:
    return {origin: _told_of(said) for origin, said in _by_origin(message, "digests").items()}


def _told_of(said: wire.Message) -> Told:
    starts, rows, totals = (wire.numbers(said, key) for key in ("starts", "rows", "totals"))
    if not len(starts) == len(rows) == len(totals) or not all(0 <= total < 1 << 64 for total in totals):
        raise ConfigError("These are not digests.", remedy="Run the same version of Anabranch on all nodes.")
    return Told(range=_range_of(said), starts_us=starts, rows=rows, totals=totals)


def _range_message(each: Range) -> wire.Message:
    return {"begin": each.begin_us, "end": each.end_us}


def _range_of(said: wire.Message) -> Range:
    return Range(begin_us=wire.number(said, "begin"), end_us=wire.number(said, "end"))


def _by_origin(message: wire.Message, key: str) -> dict[str, wire.Message]:
    tables = wire.table(message, key)
    return {origin: wire.table(tables, origin) for origin in tables}

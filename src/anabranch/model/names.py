"""Names of boxes, streams, lanes and origins.

An origin says where a tuple comes from: ``source/lane``, or the box that made it (a Join or an Aggregate). Origins are
known before anything runs, so a query has one fixed table of them, the same on every replica; rows carry its index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What a query, box, source, output or producer may be called. No dot, slash or colon: those join names below."""

OWNED_LANE: Final = "0"
"""The lane of a source whose entry point numbers the rows for any number of plain clients."""

LATE_SUFFIX: Final = ".late"
INTERNAL_PREFIX: Final = "box:"


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def lane_origin(source: str, lane: str) -> str:
    """The origin of the tuples of one lane."""
    return f"{source}/{lane}"


def late_stream(source: str) -> str:
    """The stream of a source's rows that came too late to be stamped with their own time."""
    return source + LATE_SUFFIX


def internal_stream(box: str) -> str:
    """The stream between two Spark queries of one fragment: the output of ``box``."""
    return INTERNAL_PREFIX + box


def reader_name(part: str, host: str) -> str:
    """What a part of a query on a host is called where others read or are read; one without a name, as its host."""
    return f"{part}@{host}" if part else host


def part_named(reader: str) -> str:
    """The part in the name of a reader."""
    return reader.rpartition("@")[0]


def fragments_read(readers: Iterable[str]) -> dict[str, str]:
    """Of the parts that read a stream, by the names under which they read it, what they run. All hosts that run the
    same call it the same; a part without stages is alone with what it does."""
    return {replica_reader(reader): part_named(reader) or reader for reader in readers}


def replica_reader(reader: str) -> str:
    """The name under which a part of a query reads the copies of a stream. No client can have it."""
    return f"replica:{reader}"


class Origins:
    """The fixed table of a query's origins: name to small integer and back. Sorted, so its codes order as the names
    do."""

    __slots__ = ("_codes", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names: Final = tuple(sorted(set(names)))
        self._codes: Final = {name: code for code, name in enumerate(self.names)}

    def code(self, name: str) -> int:
        return self._codes[name]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Origins({list(self.names)})"

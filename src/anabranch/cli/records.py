"""Lines of text as they come from a file or a pipe, each with its number, so that an error can say where.

A record is one row: a line of JSON, or of CSV, where a quoted field may go over several lines. Memory is bounded: one
batch of records is held, and not more than one record is longer than ``BATCH_BYTES``.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from anabranch import limits
from anabranch.errors import PushRefused

SILENCE_S: Final = 0.2
"""How long a pipe may be silent before what came is sent: a person who types sees it arrive."""

READ_BYTES: Final = 64 << 10

BATCH_BYTES: Final = 1 << 20
"""Text of one batch. An empty CSV field is one byte, and up to 16 in Arrow: still half of what one message may hold."""


@dataclass(frozen=True, slots=True)
class Record:
    """The text of one row and the number of the line it begins at."""

    line: int
    text: bytes


def batches(descriptor: int, *, max_rows: int, quoted: bool) -> Iterator[list[Record]]:
    """Records in batches: full ones, or what there is when the input is silent or over. Blank lines do not count."""
    cutter = _Cutter(quoted)
    waiting: list[Record] = []
    over = False
    while not over:
        silent = not select.select([descriptor], [], [], SILENCE_S if waiting else None)[0]
        if not silent:
            data = os.read(descriptor, READ_BYTES)
            over = not data
            waiting += cutter.rest() if over else cutter.cut(data)
        while waiting and (silent or over or _is_full(waiting, max_rows)):
            count = _fitting(waiting, max_rows)
            yield waiting[:count]
            del waiting[:count]


def _is_full(records: list[Record], max_rows: int) -> bool:
    return len(records) >= max_rows or sum(len(record.text) for record in records) >= BATCH_BYTES


def _fitting(records: list[Record], max_rows: int) -> int:
    """How many of the records go into one batch: at least one."""
    size = 0
    for count, record in enumerate(records[:max_rows]):
        size += len(record.text)
        if size > BATCH_BYTES and count:
            return count
    return min(len(records), max_rows)


@dataclass(slots=True)
class _Cutter:
    """Cuts text where a row ends: at a newline, for CSV one with an even number of quotes before it."""

    quoted: bool
    _line: int = 1
    _parts: list[bytes] = field(default_factory=list)
    """What came of the row that is not complete yet, with its size and the number of its quotes."""
    _size: int = 0
    _quotes: int = 0

    def cut(self, data: bytes) -> list[Record]:
        found = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end + b"\n")
            if not (self.quoted and self._quotes % 2):
                found += self.rest()
        self._add(rest)
        if self._size > limits.SEGMENT_BYTES:
            raise PushRefused(
                f"The row that begins at line {self._line} is longer than {limits.SEGMENT_BYTES:,} bytes.",
                remedy="A quote may never have been closed." if self.quoted else "Make it smaller.",
            )
        return found

    def rest(self) -> list[Record]:
        """The row that was begun, as it is."""
        text = b"".join(self._parts)
        record = Record(self._line, text.rstrip(b"\r\n"))
        self._line += text.count(b"\n")
        self._parts.clear()
        self._size = self._quotes = 0
        return [] if not record.text or record.text.isspace() else [record]

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        self._quotes += part.count(b'"')

"""Values of a stream as text: for JSON lines, which can be pushed again, and for a table that grows downwards."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa

from anabranch.model.times import SECOND

WIDEST: Final = 48
"""Characters of one cell; longer texts are cut."""

NARROWEST: Final = 8
"""Characters that a text keeps also where the terminal has no room for it."""

_ERA_DAYS: Final = 146_097
"""Days of 400 years, after which the calendar repeats itself."""


def rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """The rows of a batch, with dates and times as text: Spark's go far beyond the years 1 to 9999 of Python's."""
    columns = [_plain(batch.column(name)) for name in batch.schema.names]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(column: pa.Array) -> list[object]:
    if pa.types.is_date32(column.type):
        return [None if days is None else iso_date(days) for days in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(column.type):
        return [None if us is None else iso_time(us) for us in column.cast(pa.int64()).to_pylist()]
    values: list[object] = column.to_pylist()
    return values


def iso_date(days: int) -> str:
    """``2026-01-31``; years that do not have four digits carry a sign: ``+12345-01-31``, ``-0001-01-31``."""
    eras, day = divmod(days, _ERA_DAYS)
    alike = date(1970, 1, 1) + timedelta(days=day)
    year = alike.year + 400 * eras
    return f"{year:04d}{alike:-%m-%d}" if 0 <= year <= 9999 else f"{year:+05d}{alike:-%m-%d}"


def iso_time(us: int) -> str:
    days, rest = divmod(us, 86_400 * SECOND)
    moment = datetime(1970, 1, 1) + timedelta(microseconds=rest)  # noqa: DTZ001  only its time of day is shown
    return f"{iso_date(days)}T{moment:%H:%M:%S.%f}Z"


def json_line(row: Mapping[str, object]) -> str:
    return json.dumps({name: _json_value(value) for name, value in row.items()}, ensure_ascii=False)


def _json_value(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
    return value


class GrowingTable:
    """Lines of a table whose rows are not all known. A wider value widens its column, and the heading comes again.

    Where the lines would be longer than ``line_width``, the widest texts are cut, with a sign; numbers never are.
    """

    def __init__(self, columns: Sequence[str], line_width: int | None = None) -> None:
        self._columns = columns
        self._line_width = line_width
        self._widths = [0] * len(columns)
        self._numeric = [False] * len(columns)

    def lines(self, rows: Iterable[Mapping[str, object]]) -> list[str]:
        cells = [[(_cell(row[name]), _is_number(row[name])) for name in self._columns] for row in rows]
        for line in cells:
            self._numeric = [known or number for known, (_, number) in zip(self._numeric, line, strict=True)]
        widths = self._fitted(
            [
                max(known, len(name), *(len(line[index][0]) for line in cells))
                for index, (name, known) in enumerate(zip(self._columns, self._widths, strict=True))
            ]
        )
        heading = self._heading(widths) if widths != self._widths else []
        self._widths = widths
        return heading + [self._line(line) for line in cells]

    def _fitted(self, widths: list[int]) -> list[int]:
        """The widths, with those of texts made smaller until a line fits or none can be made smaller."""
        texts = [index for index, numeric in enumerate(self._numeric) if not numeric]
        while self._line_width is not None and texts and sum(widths) + 2 * (len(widths) - 1) > self._line_width:
            widest = max(texts, key=lambda index: widths[index])
            if widths[widest] <= NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _heading(self, widths: Sequence[int]) -> list[str]:
        pairs = list(zip(self._columns, widths, strict=True))
        return [
            "  ".join(_cut(name, width).ljust(width) for name, width in pairs).rstrip(),
            "  ".join("─" * width for _, width in pairs),
        ]

    def _line(self, cells: Sequence[tuple[str, bool]]) -> str:
        padded = [
            text.rjust(width) if number else _cut(text, width).ljust(width)
            for (text, number), width in zip(cells, self._widths, strict=True)
        ]
        return "  ".join(padded).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = f"{value:.6g}" if isinstance(value, float) else str(_json_value(value))
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return _cut(text, WIDEST)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)

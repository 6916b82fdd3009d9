"""Values of a stream as text: for JSON lines, which can be pushed again, and for a table that grows downwards."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

WIDEST: Final = 48
"""Characters of one cell; longer texts are cut."""


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def json_line(row: Mapping[str, object]) -> str:
    return json.dumps({name: _json_value(value) for name, value in row.items()}, ensure_ascii=False)


def _json_value(value: object) -> object:
    match value:
        case datetime():
            return iso(value)
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
    return value


class GrowingTable:
    """Lines of a table whose rows are not all known. A wider value widens its column, and the heading comes again."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._widths = [0] * len(columns)

    def lines(self, rows: Iterable[Mapping[str, object]]) -> list[str]:
        cells = [[(_cell(row[name]), _is_number(row[name])) for name in self._columns] for row in rows]
        widths = [
            max(known, len(name), *(len(line[index][0]) for line in cells))
            for index, (name, known) in enumerate(zip(self._columns, self._widths, strict=True))
        ]
        heading = self._heading(widths) if widths != self._widths else []
        self._widths = widths
        return heading + [self._line(line) for line in cells]

    def _heading(self, widths: Sequence[int]) -> list[str]:
        pairs = list(zip(self._columns, widths, strict=True))
        return [
            "  ".join(name.ljust(width) for name, width in pairs).rstrip(),
            "  ".join("─" * width for _, width in pairs),
        ]

    def _line(self, cells: Sequence[tuple[str, bool]]) -> str:
        padded = [
            text.rjust(width) if number else text.ljust(width)
            for (text, number), width in zip(cells, self._widths, strict=True)
        ]
        return "  ".join(padded).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = f"{value:.6g}" if isinstance(value, float) else str(_json_value(value))
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)

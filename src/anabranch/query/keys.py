"""How the parameters of boxes are written as plain data: one form for each sort of value, one key for each parameter.

``kinds`` says which keys a kind of box has; ``text`` reads and writes by them. What cannot be read is ``Unreadable``,
with a code and what to write instead; the reader knows the place, and something that ``validate`` knows to be empty
stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from anabranch.errors import ConfigError, with_article
from anabranch.model.times import format_duration, parse_duration
from anabranch.query.boxes import Arrow, Table, TableValue, table_rows
from anabranch.query.connectors import Writer
from anabranch.query.schema import format_schema, parse_schema
from anabranch.query.specs import feed_from, feed_to_plain, writer_from, writer_to_plain

UNREADABLE: Final = -1
"""Stands for a duration, number or fraction that could not be read."""


class Unreadable(Exception):
    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.problem = (code, message, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one sort of value is written: both ways, and what stands in for one that cannot be read."""

    read: Callable[[object], object]
    write: Callable[[Any], object]
    empty: object


def _expect(kind: type, value: object, remedy: str) -> Any:
    if not isinstance(value, kind):
        raise Unreadable("wrong-type", f"{value!r} is {with_article(type(value).__name__)}.", remedy)
    return value


def _read_text(value: object) -> str:
    return str(_expect(str, value, "Write text."))


def _read_flag(value: object) -> bool:
    return bool(_expect(bool, value, "Write true or false."))


def _read_whole(value: object) -> int:
    if isinstance(value, bool):
        raise Unreadable("wrong-type", f"{value!r} is a bool.", "Write a whole number.")
    return int(_expect(int, value, "Write a whole number."))


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(
            "wrong-type", f"{value!r} is {with_article(type(value).__name__)}.", "Write a number such as 0.1."
        )
    return float(value)


def _read_duration(value: object) -> int:
    text = _expect(str, value, "Write a number and a unit: 500ms, 10s, 5m, 1.5h or 2d.")
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise Unreadable("bad-duration", error.message, error.remedy) from error


def read_arrow(value: object) -> Arrow:
    """``box``, or ``box.1`` for its port 1."""
    remedy = "Write the name of a box, or box.1 for its second output."
    match = re.fullmatch(r"([^.]+)(?:\.([0-9]{1,6}))?", _expect(str, value, remedy))
    if match is None:
        raise Unreadable("wrong-type", f"{value!r} is not an arrow.", remedy)
    return Arrow(match[1], int(match[2] or 0))


def _list_of(read: Callable[[object], Any], remedy: str, *, split: bool = False) -> Callable[[object], tuple[Any, ...]]:
    """A list; where commas cannot be part of a value, also one text with commas; else also a single value."""

    def read_list(value: object) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = [piece.strip() for piece in value.split(",") if piece.strip()] if split else [value]
        return tuple(read(item) for item in _expect(list, value, remedy))

    return read_list


def _read_feed(value: object) -> object:
    try:
        return feed_from(value)
    except ConfigError as error:
        raise Unreadable("bad-connector", error.message, error.remedy) from error


def _read_writers(value: object) -> tuple[Writer, ...]:
    """One writer, or a list of them."""
    try:
        found = [writer_from(each) for each in (value if isinstance(value, list) else [value])]
    except ConfigError as error:
        raise Unreadable("bad-connector", error.message, error.remedy) from error
    return tuple(writer for writer in found if writer is not None)


def _read_rows(value: object) -> tuple[tuple[TableValue, ...], ...]:
    """Rows of a table, each a list of values; what they may be, ``table_checks`` says."""
    rows = _expect(list, value, "Write a list of rows.")
    return table_rows(_expect(list, row, "Write each row as a list: [DE, Germany].") for row in rows)


TEXT: Final = Form(read=_read_text, write=str, empty="")
TEXTS: Final = Form(read=_list_of(_read_text, "Write SQL as text, or a list of such texts."), write=list, empty=())
NAMES: Final = Form(
    read=_list_of(_read_text, "Write names with commas between them, or a list.", split=True), write=list, empty=()
)
FLAG: Final = Form(read=_read_flag, write=bool, empty=False)
WHOLE: Final = Form(read=_read_whole, write=int, empty=UNREADABLE)
NUMBER: Final = Form(read=_read_number, write=float, empty=UNREADABLE)
DURATION: Final = Form(read=_read_duration, write=format_duration, empty=UNREADABLE)
ARROW: Final = Form(read=read_arrow, write=str, empty=Arrow(""))
ARROWS: Final = Form(
    read=_list_of(read_arrow, "Write names of boxes with commas between them, or a list.", split=True),
    write=lambda arrows: [str(a) for a in arrows],
    empty=(),
)
SCHEMA: Final = Form(read=lambda value: parse_schema(_read_text(value)), write=format_schema, empty=())
FEED: Final = Form(read=_read_feed, write=feed_to_plain, empty=None)
WRITERS: Final = Form(read=_read_writers, write=lambda writers: [writer_to_plain(w) for w in writers], empty=())
ROWS: Final = Form(read=_read_rows, write=lambda rows: [list(row) for row in rows], empty=())
TABLE: Final = Form(
    read=lambda value: Table(name=_expect(str, value, "Write the name of a table."), schema=(), key=()),
    write=lambda table: table.name,
    empty=Table(name="", schema=(), key=()),
)
"""A table by its name; what it is stands beside the boxes."""
LIST: Final = Form(read=lambda value: _expect(list, value, "Write a list."), write=list, empty=[])

REQUIRED: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a box: which attribute it is (that of its name, if nothing is said), how it is written, what it is
    when left out.

    A key may be left out if it has a default; with ``unless``, only beside that other key.
    """

    name: str
    form: Form
    attribute: str = ""
    default: object = REQUIRED
    default_from: str = ""
    unless: str = ""

    @property
    def field(self) -> str:
        """The attribute of the box."""
        return self.attribute or self.name

    def missing_from(self, *given: Mapping[Any, object]) -> bool:
        names = {name for keys in given for name in keys}
        if self.name in names or self.default_from:
            return False
        return self.default is REQUIRED or bool(self.unless and self.unless not in names)


TABLE_KEYS: Final = (
    Key(name="schema", form=SCHEMA),
    Key(name="key", form=NAMES),
    Key(name="file", form=TEXT, default=None),
    Key(name="database", form=TEXT, default=None),
    Key(name="sql", form=TEXT, default=None),
    Key(name="rows", form=ROWS, default=None),
)
"""What a table has besides a name."""

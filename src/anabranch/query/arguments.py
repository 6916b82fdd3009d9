"""The arguments of the builder's methods: values of the wrong type are refused at once, by name.

Python shows where the call stands, so nothing else has to. Values of the right type that make no sense are left to
``validate``, which tells all of them together; so are durations that cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from anabranch.errors import ConfigError, Problem, QueryError, with_article
from anabranch.model.times import parse_duration
from anabranch.query.boxes import TableValue, table_rows
from anabranch.query.connectors import Feed, Writer
from anabranch.query.keys import UNREADABLE
from anabranch.query.specs import feed_from, writer_from

Duration = str | timedelta
WriterLike = Writer | str

SQL_REMEDY: Final = "Write SQL as text."
_TEXT_REMEDY: Final = "Write text."


class Durations:
    """Reads the durations of one box; what is none is kept for later, when the box has its name."""

    def __init__(self) -> None:
        self.mistakes: Final[list[tuple[str, ConfigError]]] = []

    def read(self, field: str, value: object) -> int:
        if isinstance(value, timedelta):
            return value // timedelta(microseconds=1)
        try:
            return parse_duration(value if isinstance(value, str) else repr(value))
        except ConfigError as error:
            self.mistakes.append((field, error))
            return UNREADABLE

    def maybe(self, field: str, value: object) -> int | None:
        return None if value is None else self.read(field, value)


def text(what: str, value: object, remedy: str = _TEXT_REMEDY) -> str:
    if not isinstance(value, str):
        raise _of_wrong_type(what, value, remedy)
    return value


def maybe_text(what: str, value: object, remedy: str = _TEXT_REMEDY) -> str | None:
    return None if value is None else text(what, value, remedy)


def names(what: str, value: object) -> tuple[str, ...]:
    """Names in a text, with commas between them, or one by one."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise _of_wrong_type(what, value, "Write names with commas between them, or a list of them.")
    return tuple(value)


def flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _of_wrong_type(what, value, "Write True or False.")
    return value


def whole(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _of_wrong_type(what, value, "Write a whole number.")
    return value


def maybe_whole(what: str, value: object) -> int | None:
    return None if value is None else whole(what, value)


def fraction(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _of_wrong_type(what, value, "Write a fraction such as 0.1, or a predicate as text.")
    return float(value)


def rows(what: str, value: object) -> tuple[tuple[TableValue, ...], ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or not all(isinstance(row, list | tuple) for row in value):
        raise _of_wrong_type(what, value, "Write a list of rows, each a list of values.")
    return table_rows(value)


def feed(what: str, value: object) -> Feed | None:
    if value is not None and not isinstance(value, str | Feed):
        raise _of_wrong_type(what, value, "Use ab.feeds, or write a feed as text: generator:rate=100.")
    return feed_from(value) if isinstance(value, str) else value


def writers(what: str, value: object) -> tuple[Writer, ...]:
    """One writer, or several."""
    many = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return tuple(writer for each in many if (writer := _writer(what, each)) is not None)


def _writer(what: str, value: object) -> Writer | None:
    if not isinstance(value, str | Writer):
        raise _of_wrong_type(what, value, "Use ab.writers, or write a writer as text: jsonl:path=out.jsonl.")
    return writer_from(value) if isinstance(value, str) else value


def misuse(message: str, remedy: str, *, query: str = "") -> QueryError:
    """An argument that no query could be built with."""
    return QueryError(query, [Problem(code="wrong-type", box="", message=message, remedy=remedy)])


def _of_wrong_type(what: str, value: object, remedy: str) -> QueryError:
    return misuse(f"{what}: {value!r} is {with_article(type(value).__name__)}.", remedy)

"""The statements of a SQL text as frozen values: what ``dialect`` reads and ``translate`` makes boxes of.

Every part knows where in the text it stands, because whoever refuses it says so. An expression keeps its text, its
tokens and sqlglot's tree: the tree says which columns it reads, the text is what Spark runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import Token, exp


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written, without its quotes, and the offset in the text where it stands."""

    text: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An expression as written: ``sql`` is the text, ``at`` the offset of its first character."""

    sql: str
    at: int
    tokens: tuple[Token, ...]
    tree: exp.Expr

    @property
    def end(self) -> int:
        return self.at + len(self.sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of a select list. ``*`` has no expression; ``of`` is the name before it in ``t.*``."""

    at: int
    expression: Text | None
    alias: Name | None = None
    of: Name | None = None


class WindowKind(Enum):
    TUMBLE = "TUMBLE"
    HOP = "HOP"
    SESSION = "SESSION"
    COUNT = "COUNT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A source, a view or a subquery of WITH, by its name."""

    name: Name
    alias: Name | None = None

    @property
    def at(self) -> int:
        return self.name.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """A query in parentheses."""

    at: int
    query: Query
    alias: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """``TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL …)`` and its like.

    ``size`` and ``every`` are microseconds, or tuples for COUNT; ``by`` is what SESSION says behind PARTITION BY.
    """

    at: int
    kind: WindowKind
    input: Named | Nested
    time: Name | None
    size: int
    every: int
    by: tuple[Name, ...] = ()
    alias: Name | None = None


Relation = Named | Nested | Windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JOIN. ``as_of`` is the time that FOR SYSTEM_TIME AS OF names; ``newest`` makes it an as-of join, which needs no
    condition."""

    at: int
    relation: Relation
    on: Text | None
    newest: bool = False
    outer: bool = False
    within_us: int | None = None
    as_of: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """DISTINCT, with the columns of ON, within a horizon."""

    at: int
    within_us: int | None
    on: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    at: int
    items: tuple[Item, ...]
    relation: Relation
    joins: tuple[Joined, ...] = ()
    distinct: Distinct | None = None
    where: Text | None = None
    group: tuple[Text, ...] = ()
    group_at: int = 0
    having: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    at: int
    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class With:
    """A query with named subqueries before it."""

    at: int
    views: tuple[tuple[Name, Query], ...]
    query: Query


Query = Select | UnionAll | With


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a WITH list: a text, a number of microseconds, or a list of texts."""

    name: Name
    value: str | int | tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSource:
    name: Name
    schema: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """A static table; ``key`` is what PRIMARY KEY names."""

    name: Name
    schema: str
    key: tuple[Name, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    name: Name
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOutput:
    """An output; one without a name is a SELECT that stands for itself."""

    at: int
    name: Name | None
    options: tuple[Option, ...]
    query: Query


Statement = CreateSource | CreateTable | CreateView | CreateOutput


class Refused(Exception):
    """A place in the text that has no translation: what it is, and what to write instead."""

    def __init__(self, at: int, message: str, remedy: str, *, code: str = "refused-sql") -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.remedy = remedy
        self.code = code


def place(text: str, at: int) -> str:
    """``line 3, column 8`` of an offset, both counted from 1."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"

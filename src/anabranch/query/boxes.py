"""The boxes of a diagram, as frozen values.

A box has a name, the arrows it reads and its parameters; SQL stays text. ``Arrow`` is one output of one box. Nothing
here checks anything: ``validate`` does, so that a diagram with ten mistakes can be built and all ten be told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from anabranch.model.names import OWNED_LANE, lane_origin
from anabranch.query.connectors import Feed, Writer


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream. ``type`` is Spark's name for it, or None where only Spark can tell."""

    name: str
    type: str | None


Schema = tuple[Column, ...]


@dataclass(frozen=True, slots=True, order=True)
class Arrow:
    """One output of a box: most boxes have only port 0, a Filter has one per predicate and perhaps one for the rest."""

    box: str
    port: int = 0

    def __str__(self) -> str:
        return self.box if self.port == 0 else f"{self.box}.{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where tuples enter. Without ``time`` they are stamped on arrival; with it, that column is their stream time.

    No lane runs further ahead of the slowest origin than ``horizon``, if that is given."""

    name: str
    schema: Schema
    time: str | None = None
    disorder_us: int = 0
    idle_us: int | None = None
    silence_us: int | None = None
    horizon_us: int | None = None
    producers: tuple[str, ...] = ()
    feed: Feed | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return ()

    @property
    def lanes(self) -> tuple[str, ...]:
        """The fixed lanes of the source: one per named producer, or the one that its entry point numbers."""
        return self.producers or (OWNED_LANE,)

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(lane_origin(self.name, lane) for lane in self.lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A tuple goes to the port of the first predicate that holds; with ``otherwise`` the rest go to one more port."""

    name: str
    input: Arrow
    predicates: tuple[str, ...]
    otherwise: bool = False

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)

    @property
    def ports(self) -> int:
        return len(self.predicates) + self.otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """One tuple out for each tuple in; ``columns`` is a SQL select list."""

    name: str
    input: Arrow
    columns: str

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """One tuple out for each tuple in: with its own columns, then ``columns``, which a function makes of those that it
    ``reads``, or of all. ``function`` is its name, ``module:function``; its code is no part of a query."""

    name: str
    input: Arrow
    function: str
    columns: Schema
    reads: tuple[str, ...] = ()
    deterministic: bool = False

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """All tuples but those for which ``predicate`` holds, or but ``fraction`` of them, chosen by seed and identity."""

    name: str
    input: Arrow
    fraction: float | None = None
    seed: int = 0
    predicate: str | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


TableValue = str | int | float | bool | None
"""What a query itself can write into a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that does not change while the query runs. ``key`` is columns whose values no two rows share.

    Its rows are those of a file, of a query to a database, or they are written in the query itself.
    """

    name: str
    schema: Schema
    key: tuple[str, ...]
    file: str | None = None
    database: str | None = None
    sql: str | None = None
    rows: tuple[tuple[TableValue, ...], ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema)


def table_rows(rows: Iterable[Iterable[TableValue]]) -> tuple[tuple[TableValue, ...], ...]:
    """Rows that are equal if their values are: every NaN is the same one."""
    return tuple(tuple(math.nan if value != value else value for value in row) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One tuple per tuple and row of a table for which ``on`` holds, equalities between columns of both.

    Without such a row, a tuple is gone, or with ``outer`` has NULL in the table's columns.
    """

    name: str
    input: Arrow
    table: Table
    on: str
    outer: bool = False

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """All tuples of all inputs, in any order."""

    name: str
    inputs: tuple[Arrow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One tuple per group and window that is over: windows of time, or of a number of the group's tuples.

    A window of time is ``[k * every, k * every + window)``, and exists if it saw a tuple. A window of ``rows`` tuples
    begins with every ``every_rows``-th tuple of a group, in canonical order, and exists when it is full. With
    ``timeout`` it is over so long after its first tuple, too, and the next tuple begins another. With ``emit_rows``
    there is a result after every so many tuples of a window, too. ``scale`` is how many digits after the point its
    exact sums have (``floats``).
    """

    name: str
    input: Arrow
    columns: str
    by: tuple[str, ...]
    window_us: int | None = None
    every_us: int | None = None
    rows: int | None = None
    every_rows: int | None = None
    timeout_us: int | None = None
    emit_rows: int | None = None
    scale: int | None = None

    @property
    def counts(self) -> bool:
        """Whether its windows are of tuples, not of time."""
        return self.rows is not None

    @property
    def time_window(self) -> tuple[int, int]:
        """Length and advance of its windows of time."""
        return self.window_us or 0, self.every_us or 0

    @property
    def count_window(self) -> tuple[int, int]:
        """Size and advance of its windows of tuples."""
        return self.rows or 0, self.every_rows or 0

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One tuple per group and session: tuples of which each is less than ``gap`` after the one before it."""

    name: str
    input: Arrow
    columns: str
    by: tuple[str, ...]
    gap_us: int
    emit_rows: int | None = None
    scale: int | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumble:
    """One tuple per run of tuples with equal columns ``by``, in canonical order of the whole input.

    A run ends when a tuple with other values comes, or when ``timeout`` has passed since its first tuple.
    """

    name: str
    input: Arrow
    columns: str
    by: tuple[str, ...]
    timeout_us: int | None = None
    emit_rows: int | None = None
    scale: int | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """One tuple per tuple, over the last ``rows`` tuples of its group, or over those of the last ``window``.

    Only every ``every_rows``-th tuple of a group has one; with ``every``, there is one at each multiple of it before
    which a tuple of the group has come since the last, over what came before it.
    """

    name: str
    input: Arrow
    columns: str
    by: tuple[str, ...]
    rows: int | None = None
    window_us: int | None = None
    every_rows: int | None = None
    every_us: int | None = None
    scale: int | None = None

    @property
    def step(self) -> int:
        """After how many tuples of a group there is a result, where tuples decide it."""
        return self.every_rows or 1

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class XSection:
    """One tuple per live group at every multiple of ``every``, over the tuples of the ``window`` before it.

    A group lives while its last tuple is no more than ``expire`` old, also where the window has none of its tuples.
    """

    name: str
    input: Arrow
    columns: str
    by: tuple[str, ...]
    window_us: int
    every_us: int
    expire_us: int
    scale: int | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One tuple per pair with ``|t1 - t2| < within`` for which ``on`` holds."""

    name: str
    left: Arrow
    right: Arrow
    on: str
    within_us: int

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """One tuple per tuple of the left: with the newest of the right that is not later and for which ``on`` holds.

    ``on`` is equalities between columns of both sides; without it there is one newest of all. A tuple of the right that
    is ``within`` old or older does not count. Without a partner, a tuple of the left is gone, or with ``outer`` has
    NULL in the right's columns.
    """

    name: str
    left: Arrow
    right: Arrow
    on: str | None = None
    outer: bool = False
    within_us: int | None = None

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample:
    """One tuple per tuple of the left, with what the right's ``columns`` are at its time.

    ``how`` makes a value of those of the right's tuples that are less than ``within`` before or after, and for which
    ``on`` holds, equalities between columns of both sides. Where there are none, it is NULL.
    """

    name: str
    left: Arrow
    right: Arrow
    columns: tuple[str, ...]
    how: str
    within_us: int
    on: str | None = None

    @property
    def waits_for_us(self) -> int:
        """How long after a tuple of the left one may come that counts for it."""
        return 0 if self.how == "previous" else self.within_us

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Tuples pass, but for those of a key of which another passed less than ``horizon`` before, in canonical order."""

    name: str
    input: Arrow
    by: tuple[str, ...]
    horizon_us: int

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class WSort:
    """Tuples in the order of the columns ``by``, as far as ``timeout`` lets them wait for each other.

    A tuple leaves no later than ``timeout`` after its own time, with all that sort before it, and has the time of that
    release. One that comes when another that sorts after it has left goes to port 1.
    """

    name: str
    input: Arrow
    by: tuple[str, ...]
    timeout_us: int

    ports: ClassVar[int] = 2

    @property
    def inputs(self) -> tuple[Arrow, ...]:
        return (self.input,)


Step = Filter | Map | Python | Drop | Lookup
"""Boxes that take each tuple of one stream by itself: they keep origin and time, and hold nothing. All but a Lookup
keep the identity, too, and make at most one tuple of each."""

Maker = Join | Latest | Resample | Aggregate | Session | Tumble | Slide | XSection
"""Boxes that hold state and make new tuples, of which they are the origin."""

Keeper = Dedup | WSort
"""Boxes that hold state and let tuples through with their identity."""

Stateful = Maker | Keeper
"""Each of them has a stage of its own."""

Summing = Aggregate | Session | Tumble | Slide | XSection
"""Boxes that compute aggregate functions over groups of tuples."""

Early = Aggregate | Session | Tumble
"""Those of them that may have results before a window is over, after every ``emit_rows`` of its tuples."""

Box = Source | Step | Union | Stateful


def kind_name(box: Box) -> str:
    """What boxes of this kind are called in the text form."""
    return type(box).__name__.lower()


def title(box: Box) -> str:
    """Kind and name; a derived name begins with the kind already."""
    return box.name if box.name.startswith(f"{kind_name(box)}_") else f"{kind_name(box)} {box.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A stream that readers may subscribe to, under this name, and that writers carry elsewhere."""

    name: str
    input: Arrow
    to: tuple[Writer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A whole query: loop-free boxes and arrows. Pure data, the same on every replica."""

    name: str
    boxes: tuple[Box, ...]
    outputs: tuple[Output, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Computed once: what is known of a diagram is looked up by it, for every batch."""
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.name, self.boxes, self.outputs)))
        return self._hash

    def box(self, name: str) -> Box:
        return next(box for box in self.boxes if box.name == name)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(box for box in self.boxes if isinstance(box, Source))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that boxes read, each once."""
        return tuple(dict.fromkeys(box.table for box in self.boxes if isinstance(box, Lookup)))

    def without_connectors(self) -> Diagram:
        """What is computed, wherever the rows come from and go to."""
        boxes = tuple(replace(box, feed=None) if isinstance(box, Source) else box for box in self.boxes)
        return replace(self, boxes=boxes, outputs=tuple(replace(output, to=()) for output in self.outputs))

    def identity(self) -> Diagram:
        """What makes two queries the same one. Of a table it matters what is in it, which is known by its digest."""
        plain = self.without_connectors()
        return replace(plain, boxes=tuple(_without_rows(box) for box in plain.boxes))


def _without_rows(box: Box) -> Box:
    if not isinstance(box, Lookup):
        return box
    return replace(box, table=replace(box.table, file=None, database=None, sql=None, rows=None))

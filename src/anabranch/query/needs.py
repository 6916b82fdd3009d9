"""Which columns a stage needs of the streams it reads: the others are not sent to Spark.

Only an Aggregate over time and a Session leave columns behind: what comes out of most other roots has all that went in,
and those that depend on order choose by themselves what waits in their state. Where something is not clear, everything
is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from anabranch.query.boxes import Aggregate, Arrow, Diagram, Drop, Filter, Lookup, Map, Python, Session, Union
from anabranch.query.graph import Stage, read_as
from anabranch.query.sql import Expression, parse_expression, parse_list


@dataclass(frozen=True, slots=True)
class Needs:
    """Columns in lower case, or None: all of them."""

    columns: frozenset[str] | None
    identity: bool
    """Whether it matters which tuple a tuple is. No expression can ask, but boxes keep it, and a Drop decides by it."""

    def has(self, column: str) -> bool:
        return self.columns is None or column.lower() in self.columns

    def without(self, columns: Iterable[str]) -> Needs:
        gone = {column.lower() for column in columns}
        return replace(self, columns=None if self.columns is None else self.columns - gone)

    def and_also(self, other: Needs) -> Needs:
        every = self.columns is None or other.columns is None
        columns = None if every else (self.columns or frozenset()) | (other.columns or frozenset())
        return Needs(columns, self.identity or other.identity)


EVERYTHING = Needs(None, identity=True)
IDENTITY = Needs(frozenset(), identity=True)


def needs(diagram: Diagram, stage: Stage) -> dict[str, Needs]:
    """What the stage needs of each stream that it reads."""
    root = diagram.box(stage.root)
    if stage.reads_root or not isinstance(root, Aggregate | Session) or (isinstance(root, Aggregate) and root.counts):
        return dict.fromkeys(stage.inputs, EVERYTHING)
    found: dict[str, Needs] = {}
    wanted = _read([*map(parse_expression, root.by), *parse_list(root.columns)])
    if isinstance(root, Session) or root.emit_rows is not None:  # which are known by their tuples
        wanted = wanted.and_also(IDENTITY)
    _Following(diagram, stage, found).follow(root.input, wanted)
    return found


@dataclass(frozen=True, slots=True)
class _Following:
    """One stage, from its root down to the streams that it reads."""

    diagram: Diagram
    stage: Stage
    found: dict[str, Needs]

    def follow(self, arrow: Arrow, wanted: Needs) -> None:
        """Down from an arrow of which these columns are wanted."""
        stream = read_as(self.diagram, self.stage, arrow)
        if stream is not None:
            self.found[stream] = wanted.and_also(self.found.get(stream, wanted))
            return
        match self.diagram.box(arrow.box):
            case Filter() as box:
                self.follow(box.input, wanted.and_also(_read(map(parse_expression, box.predicates))))
            case Drop(predicate=str(predicate)) as box:
                self.follow(box.input, wanted.and_also(_read([parse_expression(predicate)])))
            case Drop() as box:
                self.follow(box.input, wanted.and_also(IDENTITY))
            case Map() as box:
                self.follow(box.input, replace(_read(parse_list(box.columns)), identity=wanted.identity))
            case Python() as box:
                read = Needs(frozenset(map(str.lower, box.reads)) if box.reads else None, identity=False)
                self.follow(box.input, wanted.and_also(read))
            case Lookup() as box:  # whose identities come of those below
                self.follow(box.input, wanted.without(box.table.columns).and_also(_read([parse_expression(box.on)])))
            case Union() as box:  # whose inputs are compared column by column
                for below in box.inputs:
                    self.follow(below, replace(EVERYTHING, identity=wanted.identity))


def _read(expressions: Iterable[Expression]) -> Needs:
    read: set[str] = set()
    for expression in expressions:
        if expression.is_star:
            return EVERYTHING
        read |= {part.lower() for column in expression.columns for part in column.split(".")}
    return Needs(frozenset(read), identity=False)

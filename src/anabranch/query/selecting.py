"""Which rows a stage needs of the sources it reads: the others are not sent to Spark.

A Filter above a source says it, as far as its predicate begins with comparisons of a column with a constant. Spark
evaluates the whole predicate again, so a selection must be right, but not tight. What could fail on a row, or would be
evaluated only after something that could, is left to Spark: a row that must stop the query still stops it.
"""

from __future__ import annotations

import math
from typing import Final

from sqlglot import exp

from anabranch.model.selection import ALL_ROWS, Bound, Range, Selection
from anabranch.query.boxes import Arrow, Box, Diagram, Drop, Filter, Source, Union
from anabranch.query.graph import Stage, is_stateful, read_as
from anabranch.query.sql import conjuncts, parse_expression

_WHOLE: Final = {
    type_: range(-(1 << bits), 1 << bits)
    for type_, bits in (("tinyint", 7), ("smallint", 15), ("int", 31), ("bigint", 63))
}

_QUOTES: Final = frozenset("'\"")
"""Two quotes, as two backslashes, are not the same in every dialect."""

_MIRRORED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""``1 < a`` is ``a > 1``."""


def selections(diagram: Diagram, stage: Stage) -> dict[str, Selection]:
    """For each source that the stage reads, the rows it needs."""
    found: dict[str, Selection] = {}
    if is_stateful(diagram, stage):
        for arrow in diagram.box(stage.root).inputs:
            _follow(diagram, stage, arrow, (), found)
    else:
        for target in stage.targets:
            predicates: tuple[str, ...] = ()
            for name, port in reversed(target.path):
                predicates = _below(diagram.box(name), port, predicates)
            _follow(diagram, stage, Arrow(stage.root, stage.port), predicates, found)
    return found


def _follow(
    diagram: Diagram, stage: Stage, arrow: Arrow, predicates: tuple[str, ...], found: dict[str, Selection]
) -> None:
    """Down from an arrow whose tuples must pass these predicates, the first of them first."""
    box = diagram.box(arrow.box)
    if isinstance(box, Source):
        found[box.name] = _either(found.get(box.name, ()), _ranges(box, predicates))
    elif read_as(diagram, stage, arrow) is None:
        for below in box.inputs:
            _follow(diagram, stage, below, _below(box, arrow.port, predicates), found)


def _below(box: Box, port: int, above: tuple[str, ...]) -> tuple[str, ...]:
    """What tuples must pass to get through a box, and then through what is above."""
    match box:
        case Filter(predicates=(first, *_)) if port == 0:
            return (first, *above)
        case Source() | Union() | Drop(predicate=None):
            return above
        case _:  # columns have other names, or something comes first that could fail
            return ()


def _either(known: Selection, ranges: tuple[Range, ...]) -> Selection:
    """The rows that were needed already, and those in all of these ranges."""
    return ALL_ROWS if not ranges or () in known else (*known, ranges)


def _ranges(source: Source, predicates: tuple[str, ...]) -> tuple[Range, ...]:
    """The comparisons that these predicates begin with."""
    found: list[Range] = []
    for predicate in predicates:
        for conjunct in conjuncts(parse_expression(predicate)):
            compared = None if "\\" in conjunct.sql else _compared(source, conjunct.tree)
            if compared is None:
                return tuple(found)
            found.append(compared)
    return tuple(found)


def _compared(source: Source, tree: exp.Expr) -> Range | None:
    """The range that a comparison asks for, which may be a little wider; None if it is no such comparison."""
    operator = type(tree)
    if operator not in _MIRRORED:
        return None
    column, constant = tree.this, tree.expression
    if not isinstance(column, exp.Column):
        column, constant, operator = constant, column, _MIRRORED[operator]
    if not isinstance(column, exp.Column) or column.table:
        return None
    known = next((each for each in source.schema if each.name.lower() == column.name.lower()), None)
    bounds = _around(constant, known.type or "") if known else None
    if known is None or bounds is None:
        return None
    low, high = bounds
    return Range(
        column=known.name,
        low=None if operator in (exp.LT, exp.LTE) else low,
        high=None if operator in (exp.GT, exp.GTE) else high,
    )


def _around(constant: exp.Expr, type_: str) -> tuple[Bound, Bound] | None:
    """Two values of the column's type that the constant is between, however Spark reads it."""
    sign = 1
    if isinstance(constant, exp.Neg):
        sign, constant = -1, constant.this
    if not isinstance(constant, exp.Literal):
        return None
    text = constant.name
    if constant.is_string:
        readable = type_ == "string" and sign == 1 and not _QUOTES.intersection(text)
        return (text, text) if readable else None
    if type_ in _WHOLE:
        whole = sign * int(text) if text.isdigit() else None
        return (whole, whole) if whole is not None and whole in _WHOLE[type_] else None
    if type_ != "double":
        return None
    value = sign * float(text)
    return (math.nextafter(value, -math.inf), math.nextafter(value, math.inf)) if math.isfinite(value) else None

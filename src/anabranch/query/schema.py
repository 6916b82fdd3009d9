"""Schemas: their text form, and how each box turns the schema of its inputs into that of its outputs.

``"server string, cpu double"`` is a schema. Column names are compared without regard to case, as Spark does, and keep
the spelling of the source. What cannot be known (an input with a mistake in it) is None and stays None behind it, so
that one mistake is one problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from anabranch.errors import ConfigError
from anabranch.model.header import STIME
from anabranch.query import graph
from anabranch.query.boxes import Aggregate, Arrow, Box, Column, Diagram, Drop, Filter, Join, Map, Schema, Source, Union
from anabranch.query.infer import canonical_type, infer
from anabranch.query.sql import parse_expression, parse_list, select_items

COLUMN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


def parse_schema(text: str) -> Schema:
    """The columns of ``"server string, cpu double"``. Never fails: ``validate`` judges names and types."""
    return tuple(_parse_column(piece) for piece in _pieces(text) if piece.strip())


def format_schema(schema: Schema) -> str:
    """The text that ``parse_schema`` reads back as the same schema; ``?`` is a type that only Spark can tell."""
    return ", ".join(f"{column.name} {column.type or '?'}" for column in schema)


def lookup(schema: Schema, name: str) -> Column | None:
    """The column of that name, in any case."""
    return next((column for column in schema if column.name.lower() == name.lower()), None)


def output_schema(box: Box, inputs: Sequence[Schema | None]) -> Schema | None:
    """The schema of each output of a box, or None if the inputs or the box leave it unknown."""
    if isinstance(box, Source):
        columns = {column.name.lower(): column for column in reversed(box.schema)}
        return tuple(
            Column(column.name, canonical_type(column.type or ""))
            for column in box.schema
            if columns[column.name.lower()] is column  # the first of two with one name
        )
    known = [schema for schema in inputs if schema is not None]
    if len(known) != len(inputs) or not known:
        return None
    match box:
        case Filter() | Drop():
            return known[0]
        case Union():
            return known[0] if all(same_columns(known[0], schema) for schema in known) else None
        case Join():
            return _unique((*known[0], *known[1]))
        case Map():
            return _made(box.columns, (), known[0])
        case Aggregate():
            return _made(box.columns, box.by, known[0])


def schemas(diagram: Diagram) -> dict[Arrow, Schema]:
    """The schema on every arrow; all of them are there if the diagram is valid."""
    found: dict[Arrow, Schema] = {}
    for box in graph.order(diagram):
        add_outputs(found, box)
    return found


def add_outputs(found: dict[Arrow, Schema], box: Box) -> None:
    """Derive a box's outputs from its inputs; nothing is added when they are unknown."""
    schema = output_schema(box, inputs_of(found, box))
    if schema is not None:
        found.update((Arrow(box.name, port), schema) for port in range(graph.ports(box)))


def inputs_of(found: Mapping[Arrow, Schema], box: Box) -> list[Schema | None]:
    return [found.get(arrow) for arrow in box.inputs]


def same_columns(first: Schema, second: Schema) -> bool:
    """Equal names in equal order; types that only Spark can tell count as equal."""
    return len(first) == len(second) and all(
        one.name.lower() == other.name.lower() and (one.type == other.type or None in (one.type, other.type))
        for one, other in zip(first, second, strict=True)
    )


def _pieces(text: str) -> list[str]:
    """The text cut at commas that are in no bracket: ``decimal(10,2)`` and ``map<string,int>`` stay whole."""
    pieces = [""]
    depth = 0
    for character in text:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _parse_column(piece: str) -> Column:
    match = re.fullmatch(r"\s*(`[^`]*`|[^\s:]+)\s*:?\s*(.*?)\s*", piece, re.DOTALL)
    if match is None:
        return Column(piece.strip(), None)
    type_text = match[2].removeprefix("?")
    return Column(match[1].strip("`"), canonical_type(type_text) or type_text.lower() or None)


def _made(columns: str, by: Sequence[str], schema: Schema) -> Schema | None:
    """What a Map or an Aggregate makes: the group's columns, then those of the select list."""
    try:
        read = {name.lower() for expression in parse_list(columns) for name in expression.columns}
        items = select_items(columns, [column.name for column in schema])
        made = [Column(name, infer(parse_expression(sql).tree, schema)) for name, sql in items]
    except ConfigError:
        return None
    keys = [lookup(schema, name) for name in by]
    unknown = any(lookup(schema, name) is None for name in read - {STIME}) or not all(column.name for column in made)
    return None if unknown or None in keys else _unique((*(key for key in keys if key is not None), *made))


def _unique(schema: Schema) -> Schema | None:
    return schema if len({column.name.lower() for column in schema}) == len(schema) else None

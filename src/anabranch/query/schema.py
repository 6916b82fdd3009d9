"""Schemas: their text form, columns by name, and what a select list makes of them.

``"server string, cpu double"`` is a schema. Column names are compared without regard to case, as Spark does, and keep
the spelling of the source. Knows nothing of kinds of boxes: ``schemas`` follows them through a diagram.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from anabranch.errors import ConfigError
from anabranch.model.header import STIME
from anabranch.query.boxes import Column, Schema
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


def made_columns(columns: str, by: Sequence[str], schema: Schema) -> Schema | None:
    """What a box makes by a select list: the group's columns, then those of the list; None if that is not known."""
    try:
        read = {name.lower() for expression in parse_list(columns) for name in expression.columns}
        items = select_items(columns, [column.name for column in schema])
        made = [Column(name, infer(parse_expression(sql).tree, schema)) for name, sql in items]
    except ConfigError:
        return None
    keys = [lookup(schema, name) for name in by]
    unknown = any(lookup(schema, name) is None for name in read - {STIME}) or not all(column.name for column in made)
    return None if unknown or None in keys else unique((*(key for key in keys if key is not None), *made))


def unique(schema: Schema) -> Schema | None:
    """The schema, unless two of its columns have one name."""
    return schema if len({column.name.lower() for column in schema}) == len(schema) else None

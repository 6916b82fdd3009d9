"""Random SQL that both Spark and the reference can evaluate, and that no row makes fail: a row that cannot be computed
stops its stage, and everything after it would go untested."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from anabranch.query.boxes import Column

LITERALS: Final = {
    "string": ("''", "'a'", "'B'", "'ab'"),
    "int": ("0", "1", "2", "-3"),
    "bigint": ("0L", "1L", "1099511627776L"),
    "double": ("0.0D", "0.25D", "-2.75D"),
    "boolean": ("true", "false"),
    "date": ("DATE'2026-02-28'",),
}
COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def typed(columns: Sequence[Column], *types: str) -> list[Column]:
    return [column for column in columns if column.type in types]


def rather_double(random: Random, columns: Sequence[Column]) -> Column:
    """Any column; of those that depend on the order in which they are added, more than their share."""
    doubles = typed(columns, "double")
    return random.choice(doubles if doubles and random.random() < 0.4 else columns)


def predicate(random: Random, columns: Sequence[Column], depth: int = 2) -> str:
    """A condition that may be NULL for some rows."""
    known = [column for column in columns if column.type in LITERALS]
    if depth and random.random() < 0.4:
        left, right = predicate(random, columns, depth - 1), predicate(random, columns, depth - 1)
        return random.choice((f"({left}) AND ({right})", f"({left}) OR ({right})", f"NOT ({left})"))
    if not known:
        return random.choice((f"{random.choice(columns).name} IS NOT NULL", "1 = 1"))
    column = rather_double(random, known)
    literal = random.choice(LITERALS[str(column.type)])
    others = [each for each in typed(known, str(column.type)) if each.name != column.name]
    forms = [
        f"{column.name} {random.choice(COMPARISONS)} {literal}",
        f"{column.name} IS {random.choice(('', 'NOT '))}NULL",
        f"{column.name} IN ({literal}, {random.choice(LITERALS[str(column.type)])})",
        f"coalesce({column.name}, {literal}) = {literal}",
    ]
    if others:
        forms.append(f"{column.name} {random.choice(COMPARISONS)} {random.choice(others).name}")
    if column.type == "boolean":
        forms.append(column.name)
    return random.choice(forms)


def value(random: Random, columns: Sequence[Column], column: Column) -> str:
    """An expression over this column, of a type that further boxes can use."""
    name, type_name = column.name, str(column.type)
    forms = [name]
    if type_name in ("int", "bigint", "double"):
        forms += [f"{name} + 1", f"{name} * 2", f"-{name}", f"abs({name})", f"{name} % 3"]
    if type_name == "string":
        forms += [f"upper({name})", f"concat({name}, 'x')", f"length({name})", f"lower({name})"]
    if type_name in LITERALS:
        literal = random.choice(LITERALS[type_name])
        forms += [
            f"coalesce({name}, {literal})",
            f"CASE WHEN {predicate(random, columns, 1)} THEN {name} ELSE {literal} END",
            f"if({predicate(random, columns, 0)}, {name}, NULL)",
        ]
    if type_name in ("int", "boolean"):
        forms.append(f"CAST({name} AS {random.choice(('string', 'bigint'))})")
    return random.choice(forms)


def aggregate(random: Random, columns: Sequence[Column], number: int) -> str:
    """One column of an Aggregate, named."""
    column = rather_double(random, columns)
    name, type_name = column.name, str(column.type)
    forms = [f"count(*) AS n{number}", f"count({name}) AS n{number}"]
    if type_name in LITERALS or type_name.startswith("decimal") or type_name == "timestamp":
        forms += [f"max({name}) AS best{number}", f"min({name}) AS best{number}"]
    if type_name in ("int", "bigint", "double", "decimal(6,2)"):
        condition = predicate(random, columns, 0)
        forms += [
            f"sum({name}) AS s{number}",
            f"sum({name}) FILTER (WHERE {condition}) AS s{number}",
            f"avg({name}) AS mean{number}",
        ]
    if type_name == "double":
        forms += [
            f"sum({name}) / (1 + count(*)) AS rate{number}",
            f"sum({name}) FILTER (WHERE {condition}) > 0.35D AS over{number}",
            f"coalesce(avg({name}), 0.1D) AS mean{number}",
        ]
    if type_name == "boolean":
        forms += [f"bool_and({name}) AS b{number}", f"bool_or({name}) AS b{number}", f"count_if({name}) AS n{number}"]
    if type_name in ("int", "bigint"):
        forms.append(f"bit_xor({name}) AS x{number}")
    return random.choice(forms)

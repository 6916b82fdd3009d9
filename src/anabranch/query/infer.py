"""The type of an expression, as Spark would give it, without Spark.

Only what is certain: comparisons, casts, arithmetic on plain numbers, the allowed aggregates and some functions.
Everything else is None, and Spark's own answer is taken at start. A wrong guess would refuse a correct query; a missing
one only tells the user a little later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from anabranch.model.header import STIME
from anabranch.query.boxes import Schema
from anabranch.query.sql import DIALECT, is_aggregate

PLAIN_TYPES: Final = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
)  # fmt: skip
_ALIASES: Final = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "timestamp_ltz": "timestamp", "timestamptz": "timestamp", "timestampltz": "timestamp",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(-?\d+))?\))?")
_INTEGRAL: Final = ("tinyint", "smallint", "int", "bigint")
_MAX_PRECISION: Final = 38


def canonical_type(text: str) -> str | None:
    """Spark's own spelling of a supported type; None if streams do not have it."""
    name = re.sub(r"\s+", "", text.lower())
    name = _ALIASES.get(name, name)
    if name in PLAIN_TYPES:
        return name
    match = _DECIMAL.fullmatch(name)
    if match is None:
        return None
    precision, scale = int(match[1] or 10), int(match[2] or 0)
    return f"decimal({precision},{scale})" if 0 <= scale <= precision <= _MAX_PRECISION and precision else None


def infer(tree: exp.Expr, schema: Schema) -> str | None:
    """The type of an expression over these columns; None where only Spark can tell."""
    return _infer(tree, {STIME: "timestamp", **{column.name.lower(): column.type for column in reversed(schema)}})


_Columns = dict[str, str | None]


def _infer(node: exp.Expr, columns: _Columns) -> str | None:
    if isinstance(node, exp.Column):
        return None if node.table else columns.get(node.name.lower())
    if isinstance(node, (exp.Paren, exp.Alias, exp.Neg, exp.Filter)):
        return _infer(node.this, columns)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return _cast(node)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else _number(node.name)
    if is_aggregate(node):
        return _aggregate(node, columns)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, columns)
    if isinstance(node, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)):
        return "boolean"
    return _FIXED.get(type(node))


def _cast(node: exp.Expr) -> str | None:
    text = node.args["to"].sql(dialect=DIALECT).lower()
    return canonical_type(text) or text


def _number(text: str) -> str | None:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        return "double" if re.fullmatch(r"[\d.]+[eE][+-]?\d+", text) else None
    whole, point, fraction = text.partition(".")
    if point:
        digits = len(whole.lstrip("0")) + len(fraction)
        return f"decimal({max(digits, len(fraction), 1)},{len(fraction)})" if digits <= _MAX_PRECISION else None
    value = int(whole)
    return "int" if value < 1 << 31 else "bigint" if value < 1 << 63 else None


def _arithmetic(node: exp.Expr, columns: _Columns) -> str | None:
    types = [_infer(node.this, columns), _infer(node.expression, columns)]
    if types == ["timestamp", "interval"] and isinstance(node, (exp.Add, exp.Sub)):
        return "timestamp"
    if all(type_ in _INTEGRAL for type_ in types):
        return max((type_ for type_ in types if type_), key=_INTEGRAL.index)
    if "double" in types and all(is_number(type_) for type_ in types):
        return "double"
    return "float" if types == ["float", "float"] else None


def _divide(node: exp.Expr, columns: _Columns) -> str | None:
    types = [_infer(node.this, columns), _infer(node.expression, columns)]
    plain = all(is_number(type_) and not _is_decimal(type_) for type_ in types)
    return "double" if plain or ("double" in types and all(map(is_number, types))) else None


def is_number(type_: str | None) -> bool:
    return type_ in (*_INTEGRAL, "float", "double") or _is_decimal(type_)


def _is_decimal(type_: str | None) -> bool:
    return type_ is not None and type_.startswith("decimal(")


def _same(nodes: Sequence[exp.Expr | None], columns: _Columns) -> str | None:
    """The one type that all branches have; NULL has any."""
    types = {_infer(node, columns) for node in nodes if node is not None and not isinstance(node, exp.Null)}
    return types.pop() if len(types) == 1 else None


def _case(node: exp.Expr, columns: _Columns) -> str | None:
    return _same([*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")], columns)


def _aggregate(node: exp.Expr, columns: _Columns) -> str | None:
    if isinstance(node, (exp.Count, exp.CountIf)):
        return "bigint"
    if isinstance(node, (exp.LogicalAnd, exp.LogicalOr, exp.Any)):
        return "boolean"
    if isinstance(node, exp.Anonymous):
        if node.name.lower() != "mean":
            return "boolean"  # every, some
        return _average(_infer(node.expressions[0], columns)) if node.expressions else None
    argument = _infer(node.this, columns) if isinstance(node.this, exp.Expr) else None
    if isinstance(node, (exp.Min, exp.Max, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)):
        return argument
    if isinstance(node, exp.Sum):
        return _sum(argument)
    return _average(argument) if isinstance(node, exp.Avg) else "double"


def _sum(argument: str | None) -> str | None:
    if argument in _INTEGRAL:
        return "bigint"
    if _is_decimal(argument):
        precision, scale = _decimal(argument)
        return f"decimal({min(precision + 10, _MAX_PRECISION)},{scale})"
    return "double" if argument in ("float", "double") else None


def _average(argument: str | None) -> str | None:
    if _is_decimal(argument):
        precision, scale = _decimal(argument)
        return f"decimal({min(precision + 4, _MAX_PRECISION)},{min(scale + 4, _MAX_PRECISION)})"
    return "double" if is_number(argument) else None


def _decimal(type_: str | None) -> tuple[int, int]:
    precision, scale = (type_ or "")[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


_RULES: Final[dict[type[exp.Expr], Callable[[exp.Expr, _Columns], str | None]]] = {
    exp.Add: _arithmetic,
    exp.Sub: _arithmetic,
    exp.Mul: _arithmetic,
    exp.Div: _divide,
    exp.Coalesce: lambda node, columns: _same([node.this, *node.expressions], columns),
    exp.If: lambda node, columns: _same([node.args["true"], node.args.get("false")], columns),
    exp.Case: _case,
    exp.Abs: lambda node, columns: _infer(node.this, columns),
}

_FIXED: Final[dict[type[exp.Expr], str]] = {
    exp.In: "boolean",
    exp.Between: "boolean",
    exp.Is: "boolean",
    exp.Lower: "string",
    exp.Upper: "string",
    exp.Trim: "string",
    exp.Length: "int",
    exp.Sqrt: "double",
    exp.TsOrDsToDate: "date",
    exp.TimestampTrunc: "timestamp",
    exp.Array: "array",
    exp.Struct: "struct",
    exp.VarMap: "map",
    exp.Map: "map",
    exp.RegexpSplit: "array",
    exp.Interval: "interval",
}

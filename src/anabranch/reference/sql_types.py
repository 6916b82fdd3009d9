"""Spark's column types by name, and which type two of them meet in (Spark 4, ANSI mode).

Only what the reference needs: the types that a stream may have, plus ``void`` for the NULL literal.
"""

from __future__ import annotations

from typing import Final

INTEGRAL: Final = ("tinyint", "smallint", "int", "bigint")
FRACTIONAL: Final = ("float", "double")
MAX_PRECISION: Final = 38

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_AS_DECIMAL: Final = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


def is_decimal(type_name: str) -> bool:
    return type_name.startswith("decimal(")


def is_numeric(type_name: str) -> bool:
    return type_name in INTEGRAL or type_name in FRACTIONAL or is_decimal(type_name)


def bits(integral: str) -> int:
    return _BITS[integral]


def precision_scale(type_name: str) -> tuple[int, int]:
    """Of a decimal, or of the decimal that an integral type becomes beside one."""
    if type_name in _AS_DECIMAL:
        return _AS_DECIMAL[type_name]
    precision, scale = type_name[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def decimal(precision: int, scale: int) -> str:
    return f"decimal({precision},{scale})"


def bounded(precision: int, scale: int) -> str:
    """Where nothing is computed: cut off what 38 digits cannot hold."""
    return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted(precision: int, scale: int) -> str:
    """Where something is computed: give up digits after the point first, but keep six of them."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def common(first: str, second: str) -> str:
    """The type in which two values are compared, or in which a CASE gives either of them."""
    if first == second or second == "void":
        return first
    if first == "void":
        return second
    if {first, second} == {"date", "timestamp"}:
        return "timestamp"
    if is_numeric(first) and is_numeric(second):
        return _common_numeric(first, second)
    raise NotImplementedError(f"The reference does not bring {first} and {second} together; cast one of them.")


def _common_numeric(first: str, second: str) -> str:
    if first in INTEGRAL and second in INTEGRAL:
        return max(first, second, key=bits)
    if first in FRACTIONAL or second in FRACTIONAL:
        return "double"  # also float beside an int or a decimal: neither fits into a float
    (p1, s1), (p2, s2) = precision_scale(first), precision_scale(second)
    scale = max(s1, s2)
    return bounded(max(p1 - s1, p2 - s2) + scale, scale)

"""CAST among the types that a stream may have, as Spark 4 does it in ANSI mode: what does not fit is an error."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from anabranch.model.times import SECOND, from_datetime, to_datetime
from anabranch.reference import sql_types as types

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
"""Wider than any intermediate result of two decimals of 38 digits."""

DAY_US = 86_400 * SECOND
_EPOCH = date(1970, 1, 1)


def cast(value: Any, source: str, target: str) -> Any:
    """The value as one of type ``target``; NULL stays NULL."""
    if value is None or source == target:
        return value
    if target in types.INTEGRAL:
        return fit_integral(_to_int(value, source), target)
    if target in types.FRACTIONAL:
        return fit_fractional(_to_float(value, source), target)
    if types.is_decimal(target):
        return fit_decimal(_to_decimal(value, source), target)
    match target:
        case "boolean":
            return _to_boolean(value, source)
        case "string":
            return _to_string(value, source)
        case "timestamp":
            return _to_timestamp(value, source)
        case "date":
            return _to_date(value, source)
    raise _refused(source, target)


def fit_integral(value: int, target: str) -> int:
    half = 1 << (types.bits(target) - 1)
    if not -half <= value < half:
        raise OverflowError(f"{value} does not fit into {target}")
    return value


def fit_fractional(value: float, target: str) -> float:
    if target == "double" or math.isnan(value) or math.isinf(value):
        return value
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:  # Java rounds to infinity where struct refuses
        return math.copysign(math.inf, value)


def fit_decimal(value: Decimal, target: str) -> Decimal:
    precision, scale = types.precision_scale(target)
    fitted = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    if abs(fitted) >= Decimal(10) ** (precision - scale):
        raise OverflowError(f"{value} does not fit into {target}")
    return fitted


def _to_int(value: Any, source: str) -> int:
    match source:
        case "timestamp":
            return int(value // SECOND)
        case "string":
            return int(_number(value, r"[+-]?[0-9]+", "an integer"))
        case "float" | "double" if math.isnan(value) or math.isinf(value):
            raise OverflowError(f"{value} is not an integer")
    if types.is_numeric(source) or source == "boolean":
        return int(value)  # toward zero, as Java does
    raise _refused(source, "an integer")


def _to_float(value: Any, source: str) -> float:
    match source:
        case "timestamp":
            return float(value / SECOND)
        case "string":
            return float(_number(value, r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", "a number"))
    if types.is_numeric(source) or source == "boolean":
        return float(value)
    raise _refused(source, "a floating-point number")


def _to_decimal(value: Any, source: str) -> Decimal:
    match source:
        case "float" | "double":
            return Decimal(repr(value))  # the shortest text that reads back as the same double
        case "string":
            return Decimal(_number(value, r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", "a number"))
        case "timestamp":
            return Decimal(value).scaleb(-6)
    if types.is_numeric(source) or source == "boolean":
        return Decimal(value)
    raise _refused(source, "a decimal")


def _to_boolean(value: Any, source: str) -> bool:
    if types.is_numeric(source):
        return bool(value != 0)
    if source == "string":
        word = value.strip().lower()
        if word in ("t", "true", "y", "yes", "1"):
            return True
        if word in ("f", "false", "n", "no", "0"):
            return False
        raise ValueError(f"{value!r} is not a boolean")
    raise _refused(source, "boolean")


def _to_string(value: Any, source: str) -> str:
    if source == "boolean":
        return "true" if value else "false"
    if source in types.INTEGRAL:
        return str(value)
    if types.is_decimal(source):
        return f"{value:f}"
    if source == "date":
        return (_EPOCH + timedelta(days=value)).isoformat()
    if source == "binary":
        return bytes(value).decode()
    raise _refused(source, "string")  # Java writes floating-point numbers and timestamps in its own way


def _to_timestamp(value: Any, source: str) -> int:
    if source == "date":
        return int(value * DAY_US)
    if source in types.INTEGRAL:
        return fit_integral(value * SECOND, "bigint")
    if source == "string":
        moment = datetime.fromisoformat(value.strip())
        return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    raise _refused(source, "timestamp")


def _to_date(value: Any, source: str) -> int:
    if source == "timestamp":
        return (to_datetime(value).date() - _EPOCH).days
    if source == "string":
        return (date.fromisoformat(value.strip()) - _EPOCH).days
    raise _refused(source, "date")


def _number(text: str, pattern: str, what: str) -> str:
    if re.fullmatch(pattern, text.strip()) is None:
        raise ValueError(f"{text!r} is not {what}")
    try:
        Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not {what}") from error
    return text.strip()


def _refused(source: str, target: str) -> NotImplementedError:
    return NotImplementedError(f"The reference does not cast {source} to {target}.")

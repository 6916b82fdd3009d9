"""One column into the type that a source wants, vectorised, or the first value that cannot be.

Only conversions that keep meaning are made: numbers to numbers where nothing is lost, text to times, dates and
decimals; ``parse`` reads any type from text, for CSV. A failed cast says nothing useful about where, so the first bad
row is searched by halving: about two more casts of the column, and only when something is wrong.
"""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from anabranch.errors import PushRefused

Cast = Callable[[pa.Array], pa.Array]

_SHOWN_CHARS: Final = 60
_ZONE: Final = r"(Z|z|[+-]\d{2}(:?\d{2})?)$"
_TIME_OF_DAY: Final = r"\d:\d"


def refused(row: int, why: str, remedy: str = "") -> PushRefused:
    """Rows are counted from 1 for people and from 0 in ``row``."""
    return PushRefused(f"Row {row + 1}: {why}", row=row, remedy=remedy)


def convert(values: pa.Array, field: pa.Field, first_row: int = 0) -> pa.Array:
    """Values of an Arrow column as ``field`` wants them."""
    if values.type == field.type:
        return values
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _convertible(values.type, field.type):
        raise PushRefused(
            f"Column {field.name!r} has type {values.type}; the source expects {field.type}.",
            remedy=f"Convert the column to {field.type} first.",
        )
    return _cast(values, field, lambda part: _convert(part, field.type), first_row)


def parse(values: pa.Array, field: pa.Field, first_row: int = 0) -> pa.Array:
    """Text as values of ``field``. Binary is written in base64."""
    return _cast(values, field, lambda part: _parse(part, field.type), first_row)


def check_names(names: Iterable[str], schema: pa.Schema, *, some: bool = False) -> None:
    """Exactly the columns of the source, or with ``some`` at most those; otherwise say what may have been meant."""
    given = list(names)
    wanted = list(schema.names)
    unknown = [name for name in given if name not in wanted]
    missing = [] if some else [name for name in wanted if name not in given]
    twice = sorted({name for name in given if given.count(name) > 1}) if len(set(given)) < len(given) else []
    if not unknown and not missing and not twice:
        return
    problems = [f"unknown {_list(unknown)}"] if unknown else []
    problems += [f"missing {_list(missing)}"] if missing else []
    problems += [f"given twice {_list(twice)}"] if twice else []
    close = [match for name in unknown for match in difflib.get_close_matches(name, wanted, n=1)]
    hint = f"Did you mean {_list(close)}? " if close else ""
    raise PushRefused(f"Columns: {'; '.join(problems)}.", remedy=f"{hint}The source has: {', '.join(wanted)}.")


def earliest(failures: list[PushRefused]) -> PushRefused:
    """Of several columns that failed, the one that fails first."""
    return min(failures, key=lambda failure: -1 if failure.row is None else failure.row)


def _list(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _cast(values: pa.Array, field: pa.Field, cast: Cast, first_row: int) -> pa.Array:
    try:
        return cast(values)
    except (pa.ArrowException, ValueError):
        row = _first_bad(values, cast)
        shown = repr(values[row].as_py())
        shown = shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + "..."
        raise refused(
            first_row + row, f"column {field.name!r}: {shown} is not a {field.type}.", _remedy(field.type)
        ) from None


def _first_bad(values: pa.Array, cast: Cast) -> int:
    """The first row that cannot be cast: it lies in ``[low, high)`` all along."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(values.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low


def _remedy(wanted: pa.DataType) -> str:
    if pt.is_timestamp(wanted):
        return "Write 2026-01-31T12:00:00.123456Z, at most microseconds; without a zone it is read as UTC."
    if pt.is_date(wanted):
        return "Write 2026-01-31."
    if pt.is_binary(wanted):
        return "Write binary values in base64."
    return "Correct the value and push again."


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date(kind))


def _convertible(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_null(given):
        return True
    if _is_text(given) and (_is_moment(wanted) or pt.is_decimal(wanted)):
        return True
    families = (_is_text, _is_bytes, _is_number, _is_moment, pt.is_boolean)
    return any(family(given) and family(wanted) for family in families)


def _convert(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if _is_text(values.type) and not _is_text(wanted):
        return _parse(values, wanted)
    if pt.is_decimal(wanted) and pt.is_integer(values.type):
        # Arrow wants room for the largest integer there is; the values may need much less.
        values = values.cast(pa.decimal128(38, wanted.scale))
    cast = values.cast(wanted)
    if pt.is_date(wanted) and pt.is_timestamp(values.type) and not cast.cast(values.type).equals(values):
        raise ValueError("a time of day would be cut off")
    if pt.is_float32(wanted) and pt.is_float64(values.type) and not pc.is_inf(cast).equals(pc.is_inf(values)):
        raise ValueError("a number is too large")
    return cast


def _parse(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if _is_text(wanted):
        return values.cast(wanted)
    if pt.is_binary(wanted):
        return pa.array([None if text is None else _unbase64(text) for text in values.to_pylist()], wanted)
    values = pc.utf8_trim_whitespace(values.cast(pa.string()))
    return _parse_times(values).cast(wanted) if pt.is_timestamp(wanted) else values.cast(wanted)


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _parse_times(values: pa.Array) -> pa.Array:
    """ISO text, with zones or in UTC. Arrow reads a column with zones or one without, so every value gets one."""
    has_time = pc.match_substring_regex(values, _TIME_OF_DAY)
    values = pc.if_else(has_time, values, pc.binary_join_element_wise(values, "T00:00:00", ""))
    has_zone = pc.and_(has_time, pc.match_substring_regex(values, _ZONE))
    values = pc.if_else(has_zone, values, pc.binary_join_element_wise(values, "Z", ""))
    return values.cast(pa.timestamp("us", "UTC"))

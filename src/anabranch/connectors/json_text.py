"""Tuples as JSON lines, column by column: no row is looked at by Python, but for values of type binary.

The same form that ``anabranch subscribe`` prints and ``push`` reads: times are ISO 8601 in UTC, decimals, NaN and
infinities are text, binary is base64.
"""

from __future__ import annotations

import base64
import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_TEXT: Final = pa.large_string()
_CONTROL: Final = r"[\x00-\x1f]"


def json_lines(batch: pa.RecordBatch) -> bytes:
    """One line for each row."""
    if batch.num_rows == 0:
        return b""
    parts = []
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        before = ", " if index else "{"
        parts += [pa.scalar(f"{before}{json.dumps(name, ensure_ascii=False)}: ", _TEXT), _values(column)]
    lines = pc.binary_join_element_wise(*parts, pa.scalar("}\n", _TEXT), pa.scalar("", _TEXT))
    _, offsets, data = lines.buffers()  # a fresh array: its texts lie one after the other
    return data.to_pybytes()[: _last_offset(offsets, len(lines))] if data is not None else b""


def _last_offset(offsets: pa.Buffer, count: int) -> int:
    return int.from_bytes(offsets.slice(8 * count, 8).to_pybytes(), "little")


def _values(column: pa.Array) -> pa.Array:
    """JSON values as text."""
    kind = column.type
    if pt.is_string(kind):
        text = _quoted(_escaped(column.cast(_TEXT)))
    elif pt.is_floating(kind):
        plain = column.cast(_TEXT)
        text = pc.if_else(pc.is_finite(column), plain, _quoted(plain))
    elif pt.is_timestamp(kind):
        text = _quoted(pc.replace_substring(column.cast(_TEXT), " ", "T"))
    elif pt.is_date(kind) or pt.is_decimal(kind):
        text = _quoted(column.cast(pa.string()).cast(_TEXT))
    elif pt.is_binary(kind):
        encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        text = _quoted(pa.array(encoded, _TEXT))
    else:
        text = column.cast(pa.string()).cast(_TEXT)
    return pc.fill_null(text, pa.scalar("null", _TEXT))


def _quoted(text: pa.Array) -> pa.Array:
    quote = pa.scalar('"', _TEXT)
    return pc.binary_join_element_wise(quote, text, quote, pa.scalar("", _TEXT))


def _escaped(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for code in range(32):
            text = pc.replace_substring(text, chr(code), json.dumps(chr(code))[1:-1])
    return text

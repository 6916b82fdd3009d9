"""Column types: Spark's names and Arrow's types, one table.

Streams are Arrow batches, queries speak Spark's SQL types, and both must agree to the byte at the seam to Spark. A type
that is not in this table cannot be a column of a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from anabranch.errors import ConfigError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

_ARROW: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_SPARK: Final = {arrow: name for name, arrow in _ARROW.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def arrow_type(type_name: str) -> pa.DataType:
    """The Arrow type of a column that Spark calls ``type_name``."""
    if type_name in _ARROW:
        return _ARROW[type_name]
    if decimal := _DECIMAL.fullmatch(type_name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    raise ConfigError(
        f"Columns of type {type_name} are not supported.",
        remedy=f"Cast to one of: {', '.join(_ARROW)}, decimal(p,s).",
    )


def spark_type(arrow: pa.DataType) -> str:
    """What Spark calls a column of this Arrow type."""
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SPARK[arrow]


def arrow_schema(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    """The Arrow schema of data columns given as (name, Spark type)."""
    return pa.schema([pa.field(name, arrow_type(type_name)) for name, type_name in columns])

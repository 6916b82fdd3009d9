"""The identity that a box gives a tuple it makes: a hash of what the tuple was made from.

``identity_hash`` is the definition; the compiler writes the same thing as a Spark expression, and a test compares them.
It folds XXH64, each part with the hash so far as its seed (what Spark's ``xxhash64`` does with several columns), over

    "kind:box(type,type,...)",  then for each part:  is-null flag, value if there is one

so the box, the types and their number, and NULL all count: ``xxhash64`` alone skips NULL, and the groups (NULL, "a")
and ("a", NULL) would be one. Minus zero and every NaN are made equal first, because grouping makes them equal too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import xxhash

SPARK_SEED: Final = 42
"""The seed with which Spark's ``xxhash64`` begins."""

Part = tuple[str, object]
"""A column type, as Spark spells it, and a value of it (timestamps and dates as integers)."""

IDENTITY_TYPES: Final = ("string", "bigint", "bigint")
"""The types of an identity that is hashed into another: origin, stream time in microseconds, tid."""


_IS_NULL: Final = struct.pack("<i", 1)
_IS_THERE: Final = struct.pack("<i", 0)
"""The flag that is hashed before each part."""


def label(kind: str, box: str, types: Sequence[str]) -> str:
    """The first thing hashed: which box, of which kind, over how many parts of which types."""
    return f"{kind}:{box}({','.join(types)})"


def identity_hash(kind: str, box: str, parts: Sequence[Part]) -> int:
    """The ``_tid`` of a tuple that ``box`` made from ``parts``, as a signed 64-bit integer."""
    value = _hash(label(kind, box, [part[0] for part in parts]).encode(), SPARK_SEED)
    for type_name, part in parts:
        if part is None:
            value = _hash(_IS_NULL, value)
        else:
            value = _hash(_encode(type_name, part), _hash(_IS_THERE, value))
    return value - (1 << 64) if value >= 1 << 63 else value


def _hash(data: bytes, seed: int) -> int:
    return xxhash.xxh64_intdigest(data, seed=seed)


def _encode(type_name: str, value: object) -> bytes:
    """The bytes that Spark's ``xxhash64`` hashes for a value of this type."""
    match type_name, value:
        case ("string", str()):
            return value.encode()
        case ("binary", bytes()):
            return value
        case ("boolean" | "tinyint" | "smallint" | "int" | "date", int()):
            return struct.pack("<i", value)
        case ("bigint" | "timestamp", int()):
            return struct.pack("<q", value)
        case ("double", float()):
            return struct.pack("<d", _normal(value))
        case ("float", float()):
            return struct.pack("<f", _normal(value))
        case (_, Decimal()) if type_name.startswith("decimal("):
            return _encode_decimal(type_name, value)
    raise TypeError(f"{value!r} is not a value of type {type_name}")


def _normal(value: float) -> float:
    return math.nan if math.isnan(value) else value + 0.0  # -0.0 + 0.0 is 0.0


def _encode_decimal(type_name: str, value: Decimal) -> bytes:
    precision, scale = (int(number) for number in type_name[len("decimal(") : -1].split(","))
    unscaled = int(value.scaleb(scale))
    if precision <= 18:  # Spark keeps these in one long
        return struct.pack("<q", unscaled)
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)

"""Made-up rows: row n is a function of the seed and n, whatever was asked before it and on whatever machine.

Random bits come from a counter-based generator (Philox), one stream per column, addressed by block: any block of rows
can be made without those before it. The bits are turned into values here and not by NumPy's distributions, whose
results may change between its versions: a node that is started again with a newer NumPy goes on with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
import xxhash

from anabranch.connectors.paced import BLOCK_ROWS, PacedRows
from anabranch.errors import ConfigError
from anabranch.model.times import MS, SECOND
from anabranch.query.connectors import GeneratorFeed, Values

_LETTERS: Final = Values("choice", tuple("abcdefghij"))
_UNIT: Final = 2.0**-53

Bits = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Maker = Callable[[Bits, Bits, Times], pa.Array]
"""Two words of random bits per row, and the row's index, as values of a column."""


class Generator(PacedRows):
    """The rows of one generator feed."""

    def __init__(self, feed: GeneratorFeed, schema: pa.Schema, time: str | None) -> None:
        super().__init__(rate=feed.rate, limit=feed.rows, close=feed.then == "close", name="the generator")
        self._feed = feed
        self._schema = schema
        self._timed = {field.name for field in schema if time is not None and field.name.lower() == time.lower()}
        given = {name.lower(): values for name, values in feed.columns}
        self._timed |= {f.name for f in schema if pt.is_timestamp(f.type) and f.name.lower() not in given}
        self._makers = {
            field.name: _maker(field, given.get(field.name.lower()))
            for field in schema
            if field.name not in self._timed
        }
        self._block: tuple[int, dict[str, pa.Array]] = (-1, {})

    # --- the rows --------------------------------------------------------------------------------------------------

    def rows(self, first: int, times: Times) -> pa.RecordBatch:
        """Rows ``first`` (from 0) and following, one for each time; not beyond the block that ``first`` lies in."""
        block, offset = divmod(first, BLOCK_ROWS)
        if self._block[0] != block:
            self._block = (block, {name: self._column(name, block) for name in self._makers})
        columns = self._block[1]
        moments = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
        arrays = [
            moments if field.name in self._timed else columns[field.name].slice(offset, len(times))
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, block: int) -> pa.Array:
        key = np.array([self._feed.seed, xxhash.xxh64_intdigest(name.lower().encode())], dtype=np.uint64)
        counter = np.array([0, block, 0, 0], dtype=np.uint64)
        bits = np.random.Philox(key=key, counter=counter).random_raw(2 * BLOCK_ROWS)
        first = block * BLOCK_ROWS
        return self._makers[name](bits[0::2], bits[1::2], np.arange(first, first + BLOCK_ROWS, dtype=np.int64))

    # --- their times -----------------------------------------------------------------------------------------------

    def made(self, first: int, count: int, now_us: int) -> pa.RecordBatch:
        return self.rows(first, self._times(first, count, now_us))

    def _times(self, first: int, count: int, now_us: int) -> Times:
        """The times of rows: counted from the start, or when they are due by the clock."""
        rate, start_us, every_us = self._feed.rate, self._feed.start_us, self._feed.every_us
        indexes = np.arange(first, first + count, dtype=np.int64)
        if start_us is None:
            if rate is None:
                return np.full(count, now_us, dtype=np.int64)
            return self._base_us + ((indexes - self._base_row) * (SECOND / rate)).astype(np.int64)
        if every_us is not None:
            return start_us + indexes * every_us
        return start_us + (indexes * (SECOND / rate if rate is not None else MS)).astype(np.int64)


# --- values --------------------------------------------------------------------------------------------------------


def _maker(field: pa.Field, values: Values | None) -> Maker:
    kind = field.type
    if values is None and pt.is_boolean(kind):
        return lambda bits, _more, _index: pa.array((bits >> np.uint64(63)).astype(np.bool_))
    if values is None and pt.is_binary(kind):
        return lambda bits, _more, _index: _eight_bytes(bits)
    if values is None and pt.is_date(kind):
        return lambda bits, _more, _index: pa.array(_whole(bits, 20_454, 20_818).astype(np.int32)).cast(kind)  # 2026
    values = values or _default(kind)
    match values.kind:
        case "choice":
            return _choice(field, values)
        case "uniform":
            return _uniform(field, values)
        case "normal":
            return _normal(field, values)
        case _:
            return _sequence(field, values)


def _default(kind: pa.DataType) -> Values:
    if pt.is_string(kind):
        return _LETTERS
    if pt.is_integer(kind):
        return Values("uniform", ("0", "99"))
    if pt.is_decimal(kind):
        return Values("uniform", ("0", str((min(10**kind.precision, 10**4) - 1) / 10**kind.scale)))
    return Values("uniform", ("0", "1"))


def _choice(field: pa.Field, values: Values) -> Maker:
    try:
        texts = pa.array(values.arguments, pa.string())
        choices = texts.cast(pa.binary()) if pt.is_binary(field.type) else texts.cast(field.type)
    except pa.ArrowException as error:
        raise ConfigError(
            f"choice({','.join(values.arguments)}) does not fit column {field.name!r}, a {field.type}: {error}.",
            remedy="Give values that the column can have.",
        ) from error
    return lambda bits, _more, _index: choices.take(pa.array(_whole(bits, 0, len(choices) - 1)))


def _uniform(field: pa.Field, values: Values) -> Maker:
    kind = field.type
    low, high = values.arguments
    if pt.is_integer(kind):
        return lambda bits, _more, _index: _numbers(_whole(bits, _int(low), _int(high)), kind)
    if pt.is_decimal(kind):
        lowest, highest = (_unscaled(text, field) for text in (low, high))
        return lambda bits, _more, _index: _decimals(_whole(bits, lowest, highest), kind)
    return lambda bits, _more, _index: _numbers(float(low) + _unit(bits) * (float(high) - float(low)), kind)


def _normal(field: pa.Field, values: Values) -> Maker:
    mean, deviation = (float(text) for text in values.arguments)

    def make(bits: Bits, more: Bits, _index: Times) -> pa.Array:
        radius = np.sqrt(-2.0 * np.log(1.0 - _unit(bits)))  # Box and Muller, 1958
        normal = radius * np.cos(2.0 * np.pi * _unit(more))
        return _fitting((mean + deviation * normal).astype(np.float64), field)

    return make


def _sequence(field: pa.Field, values: Values) -> Maker:
    first, step = (float(text) for text in (*values.arguments, *("0", "1")[len(values.arguments) :]))
    if pt.is_integer(field.type) and first == int(first) and step == int(step):
        whole = (np.int64(int(first)), np.int64(int(step)))
        return lambda _bits, _more, index: _numbers(whole[0] + index * whole[1], field.type)
    return lambda _bits, _more, index: _fitting((first + index * step).astype(np.float64), field)


def _fitting(numbers: npt.NDArray[np.float64], field: pa.Field) -> pa.Array:
    """Real numbers as the nearest values that the column can have."""
    kind = field.type
    if pt.is_integer(kind):
        bound = 2.0 ** (kind.bit_width - 1)
        clipped = np.clip(np.rint(numbers), -bound, np.nextafter(bound, 0) if kind.bit_width == 64 else bound - 1)
        return _numbers(clipped.astype(np.int64), kind)
    if pt.is_decimal(kind):
        bound = min(10.0**kind.precision, 2.0**62) - 1
        return _decimals(np.clip(np.rint(numbers * 10.0**kind.scale), -bound, bound).astype(np.int64), kind)
    return _numbers(numbers, kind)


def _unit(bits: Bits) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), 53 bits each."""
    return (bits >> np.uint64(11)).astype(np.float64) * _UNIT


def _whole(bits: Bits, low: int, high: int) -> Times:
    """Whole numbers from ``low`` to ``high``, both included."""
    span = high - low + 1
    if span <= 1 << 53:
        return low + np.floor(_unit(bits) * span).astype(np.int64)
    offset = bits if span >= 1 << 64 else bits % np.uint64(span)
    return (offset + np.uint64(low % (1 << 64))).view(np.int64)


def _numbers(numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64], kind: pa.DataType) -> pa.Array:
    """In the type of the column; a sequence that leaves it begins again at its other end."""
    return pa.array(numbers.astype(kind.to_pandas_dtype()))


def _decimals(unscaled: Times, kind: pa.DataType) -> pa.Array:
    words = np.stack([unscaled, unscaled >> 63], axis=1)  # 128 bits, little end first
    return pa.Array.from_buffers(kind, len(unscaled), [None, pa.py_buffer(words.astype("<i8").tobytes())])


def _int(text: str) -> int:
    return int(text) if text.strip().lstrip("+-").isdigit() else int(float(text))  # 1e6 is a whole number, too


def _unscaled(text: str, field: pa.Field) -> int:
    number: int = round(float(text) * 10 ** int(field.type.scale))
    if abs(number) >= min(10**field.type.precision, 1 << 62):
        raise ConfigError(f"{text} does not fit column {field.name!r}, a {field.type}.", remedy="Give a smaller one.")
    return number


def _eight_bytes(bits: Bits) -> pa.Array:
    fixed = pa.Array.from_buffers(pa.binary(8), len(bits), [None, pa.py_buffer(bits.astype("<u8").tobytes())])
    return fixed.cast(pa.binary())

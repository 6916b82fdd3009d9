"""Compares what the copies of a stream bring to an inlet: a number for each row, over whole columns.

The inlet is sent every copy in full, so it adds up what each of them brought; nothing has to be asked of anybody, and
what was damaged on the way is found, too. ``core.digests`` decides; this module makes numbers of Arrow columns. Copies
that no node reads are compared by ``telling``, with the same numbers.

A number covers the identity and every *exact* column: all but floating-point ones, whose last bits may differ between
replicas (design note 7). Of a text or binary value its length and its first 64 KiB count.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.core.digests import Comparison, ComparisonState, CopyBegan, RaiseAlarm, TuplesDigested
from anabranch.core.identities import Header, Keys, times_of
from anabranch.core.inlet import CopyAnswered, CopyState
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.punctuation import Punctuations
from anabranch.model.times import format_time
from anabranch.runtime.status import AlarmStatus, Difference, DigestStatus
from anabranch.transport.tuples import STORED_HEADER

_log: Final = logging.getLogger(__name__)

ALARMS: Final = 16
"""Alarms that are shown; all of them are in the node's log."""

_VALUE_BYTES: Final = 64 << 10
_SAMPLE: Final = 1_024

_NULL: Final = np.uint64(0x51AB_3C07_9D24_E6F1)
_ODD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_ODDER: Final = np.uint64(0xBF58_476D_1CE4_E5B9)

_BLOCK: Final = 8_192
"""Rows that are worked on at a time: their numbers stay in the processor's cache."""


class Alarms:
    """Where copies of a stream were found to differ, since the node started or was rebuilt."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._latest: deque[RaiseAlarm] = deque(maxlen=ALARMS)
        self._count = 0

    def raise_all(self, alarms: Iterable[RaiseAlarm]) -> None:
        for alarm in alarms:
            self._count += 1
            self._latest.append(alarm)
            told = ", ".join(f"{copy} has {each.rows} ({each.total:016x})" for copy, each in alarm.digests.items())
            _log.error(
                "Copies of %s differ in the tuples of %s from %s to %s: %s.",
                *(self._stream, alarm.origin, format_time(alarm.start_us), format_time(alarm.end_us), told),
            )

    def statistics(self) -> AlarmStatus:
        """How many there were, and the latest."""
        return AlarmStatus(count=self._count, latest=tuple(map(self._difference, tuple(self._latest))))

    def _difference(self, alarm: RaiseAlarm) -> Difference:
        copies = {
            copy: DigestStatus(rows=each.rows, digest=f"{each.total:016x}") for copy, each in alarm.digests.items()
        }
        start, end = format_time(alarm.start_us), format_time(alarm.end_us)
        return Difference(stream=self._stream, origin=alarm.origin, start=start, end=end, copies=copies)


class Comparing:
    """Of one inlet, which lets one thread in at a time. ``tops`` are the largest times of what came in earlier runs."""

    def __init__(self, stream: str, origins: tuple[str, ...], tops: Punctuations) -> None:
        self._origins = origins
        self._above = times_of(tops, origins) + 1
        self._comparison = Comparison(origins)
        self._state = ComparisonState()
        self.alarms: Final = Alarms(stream)

    def answered(self, event: CopyAnswered, known: CopyState | None) -> None:
        """``known`` is what the inlet knew of the copy before.

        Of a copy that was not read before, everything above its floors comes. Of one that was, and is not simply read
        on, some may have come and not come again: only what lies above all that ever came is sure to come once.
        """
        floors = times_of(event.floors, self._origins)
        if known is not None:
            position = known.position
            follows = position.incarnation == event.incarnation and event.first_id <= position.id + 1
            if follows and event.copy in self._state.copies:
                return
            floors = np.maximum(floors, self._above)
        self._handle(CopyBegan(copy=event.copy, floors=floors))

    def arrived(self, copy: str, header: Header, numbers: Keys, seen: int, promises: Punctuations) -> None:
        """Rows of a copy, of which the first ``seen`` had come before."""
        if copy not in self._state.copies:
            return
        fresh = slice(max(seen, 0), None)
        header = header.take(fresh)
        np.maximum.at(self._above, header.origins, header.stimes + 1)
        times = times_of(promises, self._origins)
        self._handle(TuplesDigested(copy=copy, header=header, numbers=numbers[fresh], promises=times))

    def _handle(self, event: CopyBegan | TuplesDigested) -> None:
        self._state, alarms = self._comparison.handle(self._state, event)
        self.alarms.raise_all(alarms)


def header_of(rows: pa.RecordBatch | None) -> Header:
    """The identities of stored rows."""
    if rows is None:
        return Header(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
    return Header(
        rows.column(ORIGIN).to_numpy(), rows.column(STIME).cast(pa.int64()).to_numpy(), rows.column(TID).to_numpy()
    )


def row_numbers(rows: pa.RecordBatch, header: Header) -> Keys:
    """A number for each stored row, made of its identity and its exact columns."""
    parts = [header.origins.astype(np.uint64), header.tids.view(np.uint64)]
    parts += [_column_numbers(each) for each in rows.columns[STORED_HEADER:] if not pa.types.is_floating(each.type)]
    numbers = header.stimes.astype(np.uint64)
    for first in range(0, len(numbers), _BLOCK):
        block = numbers[first : first + _BLOCK]
        for part in parts:
            _mix_in(block, part[first : first + _BLOCK])
        block *= _ODDER  # spread over all 64 bits, so that sums tell sets of rows apart
        block ^= block >> np.uint64(32)
    return numbers


def _mix_in(numbers: Keys, more: Keys) -> None:
    """What both say, in one number each; the order of the columns counts."""
    numbers ^= more
    numbers *= _ODD
    numbers ^= numbers >> np.uint64(29)


def _column_numbers(column: pa.Array) -> Keys:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        numbers = _repeated_numbers(column) if _repeats(column) else _text_numbers(column)
    elif pa.types.is_decimal(kind):
        words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        words = words[column.offset : column.offset + len(column)]
        numbers = words[:, 0].copy()
        _mix_in(numbers, words[:, 1])
    else:
        plain = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
        width = np.dtype(f"i{plain.type.bit_width // 8}")
        values = np.frombuffer(plain.buffers()[1], width)[plain.offset : plain.offset + len(plain)]
        numbers = values.astype(np.int64, copy=False).view(np.uint64)
    if column.null_count:
        numbers = numbers.copy()
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return numbers


def _repeats(column: pa.Array) -> bool:
    """Whether the same texts seem to come again and again, as names do."""
    sample = column.slice(0, _SAMPLE)
    return len(column) > _SAMPLE and 4 * len(sample.unique()) < _SAMPLE


def _repeated_numbers(column: pa.Array) -> Keys:
    """Each text is looked at once."""
    encoded = column.dictionary_encode()
    if not len(encoded.dictionary):  # NULL all over
        return np.zeros(len(column), np.uint64)
    numbers: Keys = _text_numbers(encoded.dictionary).take(encoded.indices.fill_null(0).to_numpy(), mode="clip")
    return numbers


def _text_numbers(column: pa.Array) -> Keys:
    """Eight bytes of all texts at a time, of those that have so many."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    words = _words(column.buffers()[2], int(offsets[0]), int(offsets[-1]))
    found = lengths.view(np.uint64) * _ODD
    which: npt.NDArray[np.int64] | slice = slice(None)  # at first all of them, also those without a byte
    numbers, begins, left = found, offsets[:-1].astype(np.int64) - int(offsets[0]), np.minimum(lengths, _VALUE_BYTES)
    while len(numbers):
        _mix_in(numbers, _eight_bytes(words, begins) & _MASKS.take(left, mode="clip"))
        found[which] = numbers
        longer = np.flatnonzero(left > 8)
        which = longer if isinstance(which, slice) else which[longer]
        numbers, begins, left = numbers[longer], begins[longer] + 8, left[longer] - 8
    return found


def _words(data: pa.Buffer | None, begin: int, end: int) -> Keys:
    """A range of bytes, eight to a number; zeros follow on the last."""
    padded = np.zeros((end - begin) // 8 + 2, np.uint64)
    if data is not None:
        padded.view(np.uint8)[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    return padded


def _eight_bytes(words: Keys, begins: npt.NDArray[np.int64]) -> Keys:
    """The eight bytes from each of these on, of two words each: numbers lie in memory with the lowest byte first."""
    at, shift = begins >> 3, ((begins & 7) << 3).view(np.uint64)
    eight: Keys = words.take(at, mode="clip") >> shift
    eight |= (words.take(at + 1, mode="clip") << np.uint64(1)) << (np.uint64(63) - shift)
    return eight


_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Keep so many of the eight bytes, the first ones."""

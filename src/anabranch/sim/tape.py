"""A log or journal as a value: segments of tuples with what was promised after them, and who reads it.

A transaction of the simulated disk replaces one value by another, so a crash is a return to an older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from anabranch.core.readers import (
    Action,
    Event,
    Reader,
    Readers,
    ReadersState,
    SegmentAppended,
    TrimThrough,
)
from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple


class Segment(NamedTuple):
    seq: int
    first_id: int
    tuples: tuple[Tuple, ...]
    promises: Punctuations
    """All that the stream promises after the segment."""

    @property
    def last_id(self) -> int:
        return self.first_id + len(self.tuples) - 1


class Tape(NamedTuple):
    name: str
    readers: ReadersState
    segments: tuple[Segment, ...] = ()
    trimmed_promises: Punctuations = MappingProxyType({})
    end_seq: int = 0

    @classmethod
    def new(cls, name: str, incarnation: str, readers: Sequence[str]) -> Tape:
        return cls(
            name=name, readers=ReadersState(incarnation=incarnation, readers={reader: Reader() for reader in readers})
        )

    @property
    def last_id(self) -> int:
        return self.readers.last_id

    @property
    def promises(self) -> Punctuations:
        return self.segments[-1].promises if self.segments else self.trimmed_promises

    @property
    def held(self) -> int:
        """How many tuples are kept."""
        return self.last_id - self.readers.trimmed_id

    def append(self, tuples: Sequence[Tuple], raised: Punctuations) -> Tape:
        """With one more segment, if there is anything to say."""
        promises = {**self.promises, **raised}
        if not tuples and promises == self.promises:
            return self
        segment = Segment(self.end_seq + 1, self.last_id + 1, tuple(tuples), promises)
        tops: dict[str, int] = {}
        for each in tuples:
            tops[each.origin] = max(each.stime, tops.get(each.origin, 0))
        state, _ = Readers(self.name).handle(self.readers, SegmentAppended(last_id=segment.last_id, tops=tops))
        return self._replace(readers=state, segments=(*self.segments, segment), end_seq=segment.seq)

    def handle(self, event: Event) -> tuple[Tape, list[Action]]:
        """What the core says to an event about the readers, trimming carried out."""
        state, actions = Readers(self.name).handle(self.readers, event)
        segments, promises = self.segments, self.trimmed_promises
        for action in actions:
            if isinstance(action, TrimThrough):
                gone = [segment for segment in segments if segment.last_id <= action.last_id]
                segments, promises = segments[len(gone) :], gone[-1].promises if gone else {}
        if state is self.readers and segments is self.segments:
            return self, actions
        return self._replace(readers=state, segments=segments, trimmed_promises=promises), actions

    def promises_at(self, last_id: int) -> Punctuations:
        """What had been promised when tuple ``last_id`` was the last one, later promises without tuples included."""
        promises = self.trimmed_promises
        for segment in self.segments:
            if segment.last_id > last_id:
                break
            promises = segment.promises
        return promises

    def seq_at(self, last_id: int) -> int:
        """The segment after which tuple ``last_id + 1`` comes, or in which it is."""
        seq = self.end_seq - len(self.segments)
        for segment in self.segments:
            if segment.last_id > last_id:
                break
            seq = segment.seq
        return seq

    def last_id_at(self, seq: int) -> int:
        """The last tuple up to this segment, be it that all of them are gone."""
        index = min(len(self.segments), seq - (self.end_seq - len(self.segments)))
        return self.segments[index - 1].last_id if index > 0 else self.readers.trimmed_id

    def between(self, after_seq: int, to_seq: int) -> tuple[Segment, ...]:
        if after_seq >= to_seq:
            return ()
        trimmed_seq = self.end_seq - len(self.segments)
        return self.segments[max(0, after_seq - trimmed_seq) : max(0, to_seq - trimmed_seq)]

    def begun_anew(self, incarnation: str) -> Tape:
        """The same contents and readers under another incarnation."""
        return self._replace(readers=replace(self.readers, incarnation=incarnation))

    def with_hole(self, incarnation: str, floors: Punctuations) -> Tape:
        """Some tuples below these times will never come: no reader, known or not, is vouched for below them."""
        readers = {
            name: replace(reader, floors=_largest(reader.floors, floors))
            for name, reader in self.readers.readers.items()
        }
        trimmed = _largest(self.readers.trimmed, floors)
        return self._replace(readers=replace(self.readers, incarnation=incarnation, readers=readers, trimmed=trimmed))


def _largest(one: Punctuations, other: Punctuations) -> Punctuations:
    return {**one, **{origin: max(time, one.get(origin, 0)) for origin, time in other.items()}}

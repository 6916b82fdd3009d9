"""What every stream must hold in the end, known before the run: the reference over everything that is pushed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.punctuation import Punctuations
from anabranch.query.boxes import Diagram
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple

Identity = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Tuples that a producer pushes at once, and what its lane promises after them."""

    at_us: int
    source: str
    origin: str
    tuples: tuple[Tuple, ...]
    promise_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Per stream: its tuples by identity, and what it promises in the end."""

    tuples: Mapping[str, Mapping[Identity, Tuple]]
    promises: Mapping[str, Punctuations]
    by_time: Mapping[tuple[str, str], Sequence[Identity]]
    """Per stream and origin, in the order of stream time."""

    @classmethod
    def of(cls, diagram: Diagram, entries: Sequence[Entry]) -> Truth:
        run = ReferenceRun(diagram)
        sources: dict[str, list[Tuple]] = {source.name: [] for source in diagram.sources}
        promises: dict[str, dict[str, int]] = {source.name: {} for source in diagram.sources}
        for entry in entries:
            run.feed(entry.source, entry.tuples, {entry.origin: entry.promise_us})
            sources[entry.source] += entry.tuples
            promises[entry.source][entry.origin] = entry.promise_us
        streams = {name: {each.identity: each for each in made} for name, made in (sources | run.results()).items()}
        by_time: dict[tuple[str, str], list[Identity]] = {}
        for stream, found in streams.items():
            for identity in sorted(found, key=lambda each: each[1]):
                by_time.setdefault((stream, identity[0]), []).append(identity)
        return cls(tuples=streams, promises=promises | run.punctuations(), by_time=by_time)

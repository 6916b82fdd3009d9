"""What every stream must hold in the end: the reference over everything that the entry points released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.punctuation import Punctuations
from anabranch.query.boxes import Arrow, Diagram
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from anabranch.sim.messages import Pushed

Identity = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Per stream: its tuples by identity, and what it promises in the end."""

    tuples: Mapping[str, Mapping[Identity, Tuple]]
    promises: Mapping[str, Punctuations]
    by_time: Mapping[tuple[str, str], Sequence[Identity]]
    """Per stream and origin, in the order of stream time."""

    @classmethod
    def of(cls, diagram: Diagram, arrows: Mapping[str, Arrow], lanes: Mapping[str, Sequence[Pushed]]) -> Truth:
        """``arrows`` are those of the streams that are made, ``lanes`` has the entries of each lane, by origin. The
        order between lanes changes nothing."""
        run = ReferenceRun(diagram)
        sources: dict[str, list[Tuple]] = {source.name: [] for source in diagram.sources}
        promises: dict[str, dict[str, int]] = {source.name: {} for source in diagram.sources}
        for source in diagram.sources:
            for origin in source.origins:
                for entry in lanes.get(origin, ()):
                    run.feed(source.name, entry.tuples, {origin: entry.promise_us})
                    sources[source.name] += entry.tuples
                    promises[source.name][origin] = entry.promise_us
        made = {stream: run.tuples_on(arrow) for stream, arrow in arrows.items()}
        streams = {name: {each.identity: each for each in tuples} for name, tuples in (sources | made).items()}
        by_time: dict[tuple[str, str], list[Identity]] = {}
        for stream, found in streams.items():
            for identity in sorted(found, key=lambda each: each[1]):
                by_time.setdefault((stream, identity[0]), []).append(identity)
        promised = {stream: run.promises_on(arrow) for stream, arrow in arrows.items()}
        return cls(tuples=streams, promises=promises | promised, by_time=by_time)

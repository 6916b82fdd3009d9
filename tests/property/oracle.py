"""Holds a recorded run against the reference. Each function returns what is wrong, in words; nothing means
agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from anabranch.model.header import Kind
from anabranch.query.boxes import Stateful
from anabranch.query.graph import stages
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.stage import StageReference
from anabranch.reference.tuples import Tuple
from tests.recording import RecordedBatch, Recording


def contents_differ(recording: Recording) -> list[str]:
    """Definition 2 of the racing paper on every stream: the same tuples, each as often, for any cuts."""
    run = _whole_run(recording)
    return [
        fault
        for stream, expected in run.results().items()
        if stream in recording.streams
        for fault in _compare(stream, expected, recording.streams[stream].tuples)
    ]


def last_punctuations_differ(recording: Recording) -> list[str]:
    """However the batches were cut, what is promised at the end is the same."""
    expected = _whole_run(recording).punctuations()
    found = {name: stream.punctuations for name, stream in recording.streams.items() if name in expected}
    wanted = {name: expected[name] for name in found}
    return [] if found == wanted else [f"last punctuations are {found}, the reference says {wanted}"]


def batches_differ(recording: Recording) -> list[str]:
    """For the very batches that Spark ran: the watermark, the tuples and the punctuations after each."""
    faults: list[str] = []
    for stage in stages(recording.diagram):
        reference = StageReference(recording.diagram, stage)
        written = dict.fromkeys((target.stream for target in stage.targets), 0)
        before: dict[str, int] = {}
        waits = isinstance(recording.diagram.box(stage.root), Stateful)  # the others run without a watermark
        for number, batch in enumerate(recording.batches[stage.name]):
            where = f"stage {stage.name}, batch {number}"
            result = reference.run(*_inputs(recording, batch, before))
            before = dict(batch.ends)
            if waits and batch.watermark_us != result.watermark_us:
                faults.append(f"{where}: watermark {batch.watermark_us}, the reference says {result.watermark_us}")
            if dict(batch.punctuations) != dict(result.punctuations):
                faults.append(f"{where}: promised {batch.punctuations}, the reference {result.punctuations}")
            for stream, expected in result.emitted.items():
                found = recording.streams[stream].tuples[written[stream] : written[stream] + batch.written[stream]]
                written[stream] += batch.written[stream]
                faults += _compare(f"{where}, {stream}", expected, found)
    return faults


def promises_broken(recording: Recording) -> list[str]:
    """On the wire, at every moment: a punctuation never goes back, and no tuple comes below it."""
    faults: list[str] = []
    for name, stream in recording.streams.items():
        promised: dict[str, int] = {}
        for kind, origin, time in stream.wire:
            if time < promised.get(origin, 0):
                faults.append(f"{name}: {kind.name} of {origin} at {time}, after the promise {promised[origin]}")
            if kind is Kind.BOUNDARY:
                promised[origin] = time
    return faults


def ids_broken(recording: Recording) -> list[str]:
    """Ids are 1, 2, 3 … and no identity comes twice."""
    faults = []
    for name, stream in recording.streams.items():
        if stream.ids != list(range(1, len(stream.ids) + 1)):
            faults.append(f"{name}: ids are not contiguous")
        twice = [identity for identity, count in Counter(each.identity for each in stream.tuples).items() if count > 1]
        faults += [f"{name}: identity {identity} comes twice" for identity in twice[:3]]
    return faults


def _whole_run(recording: Recording) -> ReferenceRun:
    run = ReferenceRun(recording.diagram)
    for source in recording.diagram.sources:
        for tuples, punctuations in recording.streams[source.name].segments:
            run.feed(source.name, tuples, punctuations)
    return run


def _inputs(
    recording: Recording, batch: RecordedBatch, before: dict[str, int]
) -> tuple[dict[str, list[Tuple]], dict[str, dict[str, int]]]:
    """What a batch read: the new tuples of each stream, and its punctuations at the end offset."""
    ends = dict(batch.ends)
    read = {name: recording.streams[name].between(before.get(name, 0), end) for name, end in ends.items()}
    promised = {name: recording.streams[name].segments[end - 1][1] if end else {} for name, end in ends.items()}
    return read, promised


def _compare(where: str, expected: Iterable[Tuple], found: Iterable[Tuple]) -> list[str]:
    wanted = Counter(each.content for each in expected)
    got = Counter(each.content for each in found)
    faults = [f"{where}: missing {content}" for content in list((wanted - got).elements())[:3]]
    return faults + [f"{where}: too much {content}" for content in list((got - wanted).elements())[:3]]

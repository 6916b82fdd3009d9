"""Runs a case on Spark, and says what is wrong with what came out."""

from __future__ import annotations

from collections import Counter
from random import Random

from anabranch.model.names import LATE_SUFFIX, late_stream
from tests.fuzz.cases import Case
from tests.fuzz.diagrams import TIME
from tests.fuzz.scripts import us
from tests.property.oracle import (
    batches_differ,
    contents_differ,
    ids_broken,
    last_punctuations_differ,
    promises_broken,
)
from tests.recording import Push, Recording, record, replicate
from tests.spark import COMPILED, scratch

ORACLES = (contents_differ, batches_differ, last_punctuations_differ, promises_broken, ids_broken)


def judge(case: Case) -> list[str]:
    """What is wrong, in words; nothing means agreement. A run that does not come to its end is a fault too."""
    try:
        recording = run(case)
    except AssertionError as error:
        return [str(error)]
    return [*(fault for oracle in ORACLES for fault in oracle(recording)), *lateness_differs(case, recording)]


def run(case: Case) -> Recording:
    """The case on a node of this process."""
    with scratch() as directory:
        return record(
            case.diagram,
            list(case.script),
            directory / "state",
            Random(case.seed),
            restarts=min(case.restarts, len(case.script) - 1),
            settles=0.02,
            batch_rows=case.batch_rows,
            conf=COMPILED,
        )


def judge_replicas(case: Case) -> list[str]:
    """Two nodes with the same contents in another order, with other cuts and interleaving: do they agree?"""
    first = run(case)
    with scratch() as directory:
        second = replicate(
            first, directory / "state", Random(f"replica {case.seed}"), batch_rows=case.batch_rows, conf=COMPILED
        )
    return [*(fault for oracle in ORACLES for fault in oracle(second)), *replicas_differ(first, second)]


def replicas_differ(first: Recording, second: Recording) -> list[str]:
    """Definition 3 of the racing paper: the same tuples, each as often, with the same identities, in every stream."""
    return [
        f"{name}: {len(stream.tuples)} and {len(second.streams[name].tuples)} tuples that differ"
        for name, stream in first.streams.items()
        if not name.endswith(LATE_SUFFIX)
        and Counter(each.content for each in stream.tuples)
        != Counter(each.content for each in second.streams[name].tuples)
    ]


def lateness_differs(case: Case, recording: Recording) -> list[str]:
    """From the definition of a lane: a row is late below an earlier boundary, or below the largest earlier time less
    the disorder. It is then in a stream of its own, stamped with what made it late."""
    faults = []
    for source in case.diagram.sources:
        expected: dict[str, list[tuple[int, int]]] = {source.name: [], late_stream(source.name): []}
        for producer in source.producers or (None,):
            lane = [push for push in case.script if (push.source, push.producer) == (source.name, producer)]
            for time, stamp in _stamped(lane, source.disorder_us):
                expected[source.name if time == stamp else late_stream(source.name)].append((time, stamp))
        for stream, wanted in expected.items():
            found = [(each.values[TIME], each.stime) for each in recording.streams[stream].tuples]
            if Counter(found) != Counter(wanted):
                faults.append(f"{stream}: {len(found)} rows, by the definition {len(wanted)}: {found} {wanted}")
    return faults


def _stamped(lane: list[Push], disorder_us: int) -> list[tuple[int, int]]:
    """Of each row its own time, and the stamp it gets."""
    stamped = []
    promised = 0
    for push in lane:
        for row in push.rows:
            time = us(row[TIME])
            stamped.append((time, max(time, promised)))
            promised = max(promised, time - disorder_us)
        promised = max(promised, push.boundary_us or 0)
    return stamped

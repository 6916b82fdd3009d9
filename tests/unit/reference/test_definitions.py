"""Boxes and diagrams against one-line definitions, for any order and any cuts."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from anabranch.core.output import output_punctuations
from anabranch.model.identity import identity_hash
from anabranch.model.times import CLOSED_US
from anabranch.query.boxes import Arrow, Diagram, Filter, Map
from anabranch.query.graph import Stage, stages
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.stage import StageReference
from anabranch.reference.tuples import Tuple
from tests.unit.reference.streams import aggregate, contents, diagram, join, row, source, union

SECOND_ISH = 4_000
"""Times lie in a few windows, with many ties."""

cells = st.tuples(st.integers(1, 6 * SECOND_ISH), st.sampled_from(["x", "y", None]), st.integers(0, 9))
rows_a = st.lists(cells, max_size=12)
rows_b = st.lists(cells, max_size=12)
seeds = st.integers(0, 1 << 32)

A = source("a", "k string", "v int")
B = source("b", "kb string", "w int")


def tuples(name: str, rows: list[tuple[int, str | None, int]]) -> list[Tuple]:
    """In order of time, numbered, as an entry point would have them."""
    key, value = ("k", "v") if name == "a" else ("kb", "w")
    return [
        row(f"{name}/0", time, n, **{key: k, value: v})
        for n, (time, k, v) in enumerate(sorted(rows, key=lambda c: c[0]))
    ]


def cuts(seed: int, streams: dict[str, list[Tuple]]) -> list[tuple[str, list[Tuple], int]]:
    """The streams in any interleaving and any pieces, each with a promise that is true; all closed at the end."""
    chance = random.Random(seed)
    left = {name: list(rows) for name, rows in streams.items()}
    pieces: list[tuple[str, list[Tuple], int]] = []
    promised = dict.fromkeys(streams, 0)
    while any(left.values()):
        name = chance.choice([name for name, rows in left.items() if rows])
        size = chance.randint(0, len(left[name]))
        piece, left[name] = left[name][:size], left[name][size:]
        limit = left[name][0].stime if left[name] else 7 * SECOND_ISH
        promised[name] = chance.choice([promised[name], chance.randint(promised[name], limit), limit])
        pieces.append((name, piece, promised[name]))
    return pieces + [(name, [], CLOSED_US) for name in streams]


def feed(run: ReferenceRun, pieces: list[tuple[str, list[Tuple], int]]) -> None:
    for name, piece, promise in pieces:
        run.feed(name, piece, {f"{name}/0": promise})


@given(a=rows_a, b=rows_b, seed=seeds, within=st.integers(1, 2 * SECOND_ISH))
def test_a_join_is_a_nested_loop_over_everything(
    a: list[tuple[int, str | None, int]], b: list[tuple[int, str | None, int]], seed: int, within: int
) -> None:
    streams = {"a": tuples("a", a), "b": tuples("b", b)}
    run = ReferenceRun(diagram(A, B, join("j", "a", "b", "k = kb", within), out="j"))
    feed(run, cuts(seed, streams))
    nested_loop = [
        row(
            "j",
            max(left.stime, right.stime),
            identity_hash("join", "j", [*left.identity_parts, *right.identity_parts]),
            **left.values,
            **right.values,
        )
        for left in streams["a"]
        for right in streams["b"]
        if left.values["k"] == right.values["kb"] is not None and abs(left.stime - right.stime) < within
    ]
    assert contents(run.results()["out"]) == contents(nested_loop)


@given(a=rows_a, seed=seeds, size=st.integers(1, 12), every=st.integers(1, 12))
def test_an_aggregate_is_a_grouping_of_everything(
    a: list[tuple[int, str | None, int]], seed: int, size: int, every: int
) -> None:
    window_us, every_us = size * 1_000, every * 1_000
    run = ReferenceRun(
        diagram(A, aggregate("g", "a", "sum(v) AS s, count(*) AS n", ("k",), window_us, every_us), out="g")
    )
    feed(run, cuts(seed, {"a": tuples("a", a)}))
    starts = range(-12_000 // every_us * every_us, 7 * SECOND_ISH, every_us)
    grouped = Counter(
        (start, k, sum(v for t, kk, v in a if kk == k and start <= t < start + window_us), count)
        for start in starts
        for k in ("x", "y", None)
        if (count := sum(1 for t, kk, _ in a if kk == k and start <= t < start + window_us))
    )
    found = Counter((e.stime - window_us, e.values["k"], e.values["s"], e.values["n"]) for e in run.results()["out"])
    assert found == grouped
    assert len({each.identity for each in run.results()["out"]}) == len(run.results()["out"])


def everything() -> Diagram:
    """All five boxes: a diamond, a window over a join, a join of a window with a source, a shared filter."""
    return diagram(
        A,
        B,
        Filter(name="f", input=Arrow("a"), predicates=("v > 6", "v > 3"), otherwise=True),
        Map(name="m", input=Arrow("b"), columns="kb AS k, w AS v"),
        union("u", "f", "m"),
        union("d", "u", "a"),
        join("j", "d", "b", "k = kb", SECOND_ISH),
        Map(name="jm", input=Arrow("j"), columns="k AS key, v + w AS total"),
        aggregate("g", "jm", "sum(total) AS total, count(*) AS n", ("key",), 2 * SECOND_ISH, SECOND_ISH),
        join("h", "g", "a", "key = k", 3 * SECOND_ISH),
        aggregate("c", "d", "count(*) AS n", (), SECOND_ISH),
        d="d",
        rest=Arrow("f", 2),
        g="g",
        h="h",
        c="c",
    )


@given(a=rows_a, b=rows_b, seed=seeds, other=seeds)
def test_a_diagram_does_not_depend_on_cuts(
    a: list[tuple[int, str | None, int]], b: list[tuple[int, str | None, int]], seed: int, other: int
) -> None:
    streams = {"a": tuples("a", a), "b": tuples("b", b)}
    runs = [ReferenceRun(everything()) for _ in range(2)]
    for run, each in zip(runs, (seed, other), strict=True):
        feed(run, cuts(each, streams))
    first, second = runs
    assert {s: contents(r) for s, r in first.results().items()} == {s: contents(r) for s, r in second.results().items()}
    assert first.punctuations() == second.punctuations()
    for stream, found in first.results().items():
        assert len({each.identity for each in found}) == len(found), f"an identity came twice in {stream}"


@given(a=rows_a, b=rows_b, seed=seeds)
def test_stages_in_batches_come_to_the_same_and_their_promises_are_true(
    a: list[tuple[int, str | None, int]], b: list[tuple[int, str | None, int]], seed: int
) -> None:
    """Also: the promise of each batch is the one that ``core`` computes, which was written from the same text."""
    check_stages(everything(), stages(everything()), cuts(seed, {"a": tuples("a", a), "b": tuples("b", b)}))


@given(
    a=rows_a,
    b=rows_b,
    seed=seeds,
    node=st.fixed_dictionaries({box.name: st.sampled_from(("n1", "n2")) for box in everything().boxes}),
)
def test_boxes_on_different_nodes_come_to_the_same(
    a: list[tuple[int, str | None, int]], b: list[tuple[int, str | None, int]], seed: int, node: dict[str, str]
) -> None:
    query = everything()
    apart = {(arrow, box.name) for box in query.boxes for arrow in box.inputs if node[arrow.box] != node[box.name]}
    check_stages(query, stages(query, apart), cuts(seed, {"a": tuples("a", a), "b": tuples("b", b)}))


def check_stages(query: Diagram, cut: tuple[Stage, ...], pieces: list[tuple[str, list[Tuple], int]]) -> None:
    """These stages, batch by batch, come to what the whole diagram does, and keep their promises on the way."""
    run = ReferenceRun(query)
    feed(run, pieces)
    workers = {stage.name: StageReference(query, stage) for stage in cut}
    written: dict[str, list[Tuple]] = {target.stream: [] for stage in cut for target in stage.targets}
    promised: dict[str, dict[str, int]] = {"a": {}, "b": {}, **{stream: {} for stream in written}}
    nothing: list[tuple[str, list[Tuple], int]] = [("a", [], CLOSED_US)] * (2 * len(workers))
    for name, piece, promise in pieces + nothing:
        promised[name] = {f"{name}/0": promise}
        new = {name: piece}
        for stage in cut:
            inputs = {stream: promised[stream] for stream in stage.inputs}
            result = workers[stage.name].run({stream: new.get(stream, []) for stream in stage.inputs}, inputs)
            own = output_punctuations(query, stage.root, inputs, result.watermark_us, port=stage.port)
            assert result.punctuations == own
            for stream, found in result.emitted.items():
                for each in found:
                    assert each.stime >= promised[stream].get(each.origin, 0), "a promise was broken"
                for origin, time in promised[stream].items():
                    assert result.punctuations[origin] >= time, "a promise was taken back"
                written[stream] += found
                promised[stream] = dict(result.punctuations)
                new[stream] = found
    whole, promises = run.results(), run.punctuations()
    known = [stream for stream in written if stream in whole]  # not what only cuts made a stream
    assert set(known) >= {output.name for output in query.outputs}
    assert {s: contents(written[s]) for s in known} == {s: contents(whole[s]) for s in known}
    assert {s: promised[s] for s in known} == {s: promises[s] for s in known}

"""A stage batch by batch: windows come one batch late, everything else at once."""

from __future__ import annotations

from anabranch.query.boxes import Arrow, Filter
from anabranch.query.graph import Stage, stages
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.stage import StageReference
from tests.unit.reference.streams import aggregate, diagram, join, row, source, union

A = source("a", "k string", "v int")
B = source("b", "w int")


def stage_of(query: object, name: str) -> Stage:
    return next(stage for stage in stages(query) if stage.name == name)  # type: ignore[arg-type]


def test_a_punctuation_closes_windows_in_the_next_batch() -> None:
    query = diagram(A, aggregate("g", "a", "count(*) AS n", (), 10_000), out="g")
    stage = StageReference(query, stage_of(query, "g"))
    first = stage.run({"a": [row("a/0", 5_000, 1, k="x", v=1)]}, {"a": {"a/0": 10_500}})
    assert (first.emitted, first.punctuations, first.watermark_us) == ({"out": []}, {}, 0)
    second = stage.run({}, {"a": {"a/0": 10_500}})
    assert [each.values["n"] for each in second.emitted["out"]] == [1]
    assert (second.punctuations, second.watermark_us) == ({"g": 10_001}, 10_000), "in whole milliseconds"


def test_tuples_of_a_batch_are_counted_before_its_windows_close() -> None:
    query = diagram(A, aggregate("g", "a", "count(*) AS n", (), 10_000), out="g")
    stage = StageReference(query, stage_of(query, "g"))
    stage.run({"a": [row("a/0", 5_000, 1, k="x", v=1)]}, {"a": {"a/0": 6_000}})
    stage.run({"a": [row("a/0", 9_999, 2, k="x", v=1)]}, {"a": {"a/0": 20_000}})
    result = stage.run({"a": [row("a/0", 25_000, 3, k="x", v=1)]}, {"a": {"a/0": 25_000}})
    assert [(each.stime, each.values["n"]) for each in result.emitted["out"]] == [(10_000, 2)]


def test_a_join_promises_at_once() -> None:
    query = diagram(A, B, join("j", "a", "b", "v = w", 1_000), out="j")
    stage = StageReference(query, stage_of(query, "j"))
    result = stage.run(
        {"a": [row("a/0", 5_000, 1, k="x", v=1)], "b": [row("b/0", 5_500, 1, w=1)]},
        {"a": {"a/0": 5_000}, "b": {"b/0": 5_400}},
    )
    assert len(result.emitted["out"]) == 1
    assert result.punctuations == {"j": 5_000}


def test_outputs_above_one_root_are_split_and_share_its_promise() -> None:
    split = Filter(name="f", input=Arrow("g"), predicates=("n > 1",), otherwise=True)
    query = diagram(
        A, aggregate("g", "a", "count(*) AS n", ("k",), 10_000), split, many=Arrow("f"), few=Arrow("f", 1), all="g"
    )
    stage = StageReference(query, stage_of(query, "g"))
    stage.run({"a": [row("a/0", 1, n, k=k, v=1) for n, k in enumerate("xxy")]}, {"a": {"a/0": 10_000}})
    result = stage.run({}, {"a": {"a/0": 10_000}})
    counts = {stream: sorted(each.values["n"] for each in found) for stream, found in result.emitted.items()}  # type: ignore[type-var]
    assert counts == {"many": [2], "few": [1], "all": [1, 2]}


def test_a_source_that_promised_nothing_holds_the_watermark() -> None:
    two = source("p", "v int", producers=("x", "y"))
    query = diagram(two, aggregate("g", "p", "count(*) AS n", (), 10_000), out="g")
    stage = StageReference(query, stage_of(query, "g"))
    for _ in range(3):
        result = stage.run({}, {"p": {"p/x": 99_000}})
    assert (result.watermark_us, result.punctuations) == (0, {})


def test_a_source_may_be_a_root_and_so_may_a_union() -> None:
    query = diagram(A, source("c", "k string", "v int"), union("u", "a", "c"), plain="a", both="u")
    one = row("a/0", 5, 1, k="x", v=1)
    plain = StageReference(query, stage_of(query, "a")).run({"a": [one]}, {"a": {"a/0": 5}})
    assert (plain.emitted, plain.punctuations) == ({"plain": [one]}, {"a/0": 5})
    both = StageReference(query, stage_of(query, "u")).run({"a": [one], "c": []}, {"a": {"a/0": 5}, "c": {}})
    assert (both.emitted, both.punctuations) == ({"both": [one]}, {"a/0": 5})
    run = ReferenceRun(query)
    run.feed("a", [one], {"a/0": 5})
    assert run.results() == {"plain": [one], "both": [one]}
    assert run.punctuations() == {"plain": {"a/0": 5}, "both": {"a/0": 5}}


def test_a_diamond_gives_every_tuple_two_identities() -> None:
    halves = Filter(name="f", input=Arrow("a"), predicates=("v > 0",))
    query = diagram(A, halves, union("u", "a", "f"), out="u")
    run = ReferenceRun(query)
    run.feed("a", [row("a/0", 5, 1, k="x", v=1)], {"a/0": 5})
    first, second = run.results()["out"]
    assert first.tid != second.tid
    assert first.values == second.values

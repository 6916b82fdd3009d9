"""What a stage promises after a batch: the rules of each box, one by one."""

from __future__ import annotations

from anabranch.core.output import output_punctuations
from anabranch.query.boxes import Aggregate, Arrow, Box, Diagram, Drop, Filter, Join, Map, Source, Union

A = Source(name="a", schema=())
B = Source(name="b", schema=())
TWO_LANES = Source(name="p", schema=(), producers=("x", "y"))


def diagram(*boxes: Box) -> Diagram:
    return Diagram(name="q", boxes=boxes, outputs=())


def keep(name: str, below: str, port: int = 0) -> Filter:
    return Filter(name=name, input=Arrow(below, port), predicates=("x > 1",), otherwise=True)


def aggregate(name: str, below: str) -> Aggregate:
    return Aggregate(name=name, input=Arrow(below), columns="count(*) AS n", by=(), window_us=1_000, every_us=1_000)


def join(name: str, left: str, right: str) -> Join:
    return Join(name=name, left=Arrow(left), right=Arrow(right), on="TRUE", within_us=1_000)


def union(name: str, *below: str) -> Union:
    return Union(name=name, inputs=tuple(Arrow(each) for each in below))


def test_a_source_promises_what_its_lanes_do() -> None:
    assert output_punctuations(diagram(TWO_LANES), "p", {"p": {"p/x": 5, "p/y": 9}}, 0) == {"p/x": 5, "p/y": 9}


def test_an_origin_that_promised_nothing_is_left_out() -> None:
    assert output_punctuations(diagram(TWO_LANES), "p", {"p": {"p/x": 5}}, 0) == {"p/x": 5}


def test_an_origin_that_does_not_reach_is_left_out() -> None:
    assert output_punctuations(diagram(A, B), "a", {"a": {"a/0": 5, "b/0": 7}}, 0) == {"a/0": 5}


def test_filter_and_map_keep_the_promise() -> None:
    mapped = Map(name="m", input=Arrow("f", 1), columns="x")
    shape = diagram(A, keep("f", "a"), mapped, union("u", "m"))
    assert output_punctuations(shape, "u", {"a": {"a/0": 5}}, 0) == {"a/0": 5}


def test_a_union_keeps_the_origins_of_all_inputs_apart() -> None:
    assert output_punctuations(diagram(A, B, union("u", "a", "b")), "u", {"a": {"a/0": 5}, "b": {"b/0": 9}}, 0) == {
        "a/0": 5,
        "b/0": 9,
    }


def test_a_union_promises_the_smallest_of_the_inputs_that_carry_an_origin() -> None:
    """The inputs of one origin here are the same stream, read by way of two Unions."""
    shape = diagram(A, B, union("u", "a", "b"), union("v", "u", "a"))
    assert output_punctuations(shape, "v", {"a": {"a/0": 5}, "b": {"b/0": 3}}, 0) == {"a/0": 5, "b/0": 3}


def test_a_join_promises_the_slowest_origin_of_both_inputs() -> None:
    shape = diagram(TWO_LANES, B, join("j", "p", "b"))
    assert output_punctuations(shape, "j", {"p": {"p/x": 50, "p/y": 9}, "b": {"b/0": 20}}, 70) == {"j": 9}
    assert output_punctuations(shape, "j", {"p": {"p/x": 50, "p/y": 90}, "b": {"b/0": 20}}, 70) == {"j": 20}


def test_a_join_promises_nothing_while_one_origin_has_not() -> None:
    shape = diagram(TWO_LANES, B, join("j", "p", "b"))
    assert output_punctuations(shape, "j", {"p": {"p/x": 50}, "b": {"b/0": 20}}, 70) == {}
    assert output_punctuations(shape, "j", {"p": {"p/x": 50, "p/y": 90}, "b": {}}, 70) == {}


def test_an_aggregate_promises_one_unit_more_than_its_watermark() -> None:
    shape = diagram(A, aggregate("g", "a"))
    assert output_punctuations(shape, "g", {"a": {"a/0": 999_999}}, 5_000) == {"g": 5_001}


def test_an_aggregate_promises_nothing_before_its_first_watermark() -> None:
    assert output_punctuations(diagram(A, aggregate("g", "a")), "g", {"a": {"a/0": 999_999}}, 0) == {}


def test_joins_and_aggregates_below_the_root_are_read_as_streams() -> None:
    shape = diagram(
        A, B, join("j", "a", "b"), aggregate("g", "j"), keep("f", "g"), union("u", "f", "j"), join("k", "u", "a")
    )
    assert output_punctuations(shape, "u", {"box:g": {"g": 4}, "box:j": {"j": 6}}, 0) == {"g": 4, "j": 6}
    assert output_punctuations(shape, "k", {"box:g": {"g": 4}, "box:j": {"j": 6}, "a": {"a/0": 5}}, 0) == {"k": 4}


def test_an_aggregate_that_counts_promises_the_watermark_itself() -> None:
    counting = Aggregate(name="c", input=Arrow("d"), columns="count(*) AS n", by=(), rows=2, every_rows=2)
    shape = diagram(A, Drop(name="d", input=Arrow("a"), fraction=0.5), counting)
    assert output_punctuations(shape, "c", {"a": {"a/0": 9_000}}, 5_000) == {"c": 5_000}
    assert output_punctuations(shape, "c", {"a": {"a/0": 9_000}}, 0) == {}


def test_a_drop_keeps_the_promise() -> None:
    shape = diagram(A, Drop(name="d", input=Arrow("a"), fraction=0.5), union("u", "d"))
    assert output_punctuations(shape, "u", {"a": {"a/0": 5}}, 0) == {"a/0": 5}


def test_what_is_read_from_elsewhere_promises_what_it_brings() -> None:
    shape = diagram(A, B, union("u", "a", "b"), keep("f", "u"), join("j", "u", "f"))
    both = {"a/0": 5, "b/0": 7}
    assert output_punctuations(shape, "u", {"box:u": both}, 0) == both
    assert output_punctuations(shape, "f", {"box:f.1": both}, 0, port=1) == both
    assert output_punctuations(shape, "j", {"box:u": {"a/0": 9, "b/0": 8}, "box:f": both}, 0) == {"j": 5}
    assert output_punctuations(shape, "j", {"box:j": {"j": 6}}, 99) == {"j": 6}
    assert output_punctuations(shape, "j", {"box:u": {"a/0": 9}, "box:f": both}, 0) == {}

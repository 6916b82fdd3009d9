"""Where a diagram is cut into Spark queries, and which origins reach what."""

from __future__ import annotations

from anabranch.query.boxes import Arrow, Diagram, Map, Output, Union
from anabranch.query.builder import Query, Stream
from anabranch.query.graph import (
    Stage,
    Target,
    all_origins,
    boxes_of,
    is_stateful,
    order,
    origins,
    outputs_behind,
    read_as,
    scans,
    sources_of,
    stages,
    union_hashes,
)


def cut(query: Query) -> list[Stage]:
    return list(stages(query.checked()))


def source(query: Query, name: str, prefix: str = "") -> Stream:
    return query.source(name, f"{prefix}k string, {prefix}v int")


def joined(query: Query) -> Stream:
    return source(query, "l", "l").join(source(query, "r", "r"), on="lk = rk", within="1s", name="j")


def target(stream: str, *path: tuple[str, int], arrow: Arrow) -> Target:
    return Target(stream=stream, path=path, arrow=arrow)


def test_the_example_is_a_join_and_an_aggregate() -> None:
    q = Query("slow_paths")
    load = q.source("load", "server string, cpu double")
    slow = q.source("ping", "target string, rtt_ms double").filter("rtt_ms > 1000", name="slow")
    network, _ = slow.join(load, on="target = server", within="1s", name="j").filter(
        "cpu < 0.8", otherwise=True, name="f"
    )
    q.output("network_problems", network)
    q.output("slow_per_target", slow.aggregate("count(*) AS n", by="target", window="10s", name="a"))
    assert cut(q) == [
        Stage(
            name="j",
            root="j",
            inputs=("ping", "load"),
            targets=(target("network_problems", ("f", 0), arrow=Arrow("f")),),
        ),
        Stage(name="a", root="a", inputs=("ping",), targets=(target("slow_per_target", arrow=Arrow("a")),)),
    ]


def test_two_outputs_above_a_shared_join_are_one_stage() -> None:
    q = Query("q")
    low, high = joined(q).filter("lv < 5", otherwise=True, name="f")
    q.output("low", low)
    q.output("high", high.map("lk", name="m"))
    assert cut(q) == [
        Stage(
            name="j",
            root="j",
            inputs=("l", "r"),
            targets=(
                target("low", ("f", 0), arrow=Arrow("f")),
                target("high", ("f", 1), ("m", 0), arrow=Arrow("m")),
            ),
        )
    ]


def test_an_aggregate_on_a_join_reads_its_internal_stream() -> None:
    q = Query("q")
    pairs = joined(q)
    q.output("n", pairs.filter("lv > 1").aggregate("count(*) AS n", window="1s", name="a"))
    assert cut(q) == [
        Stage(name="j", root="j", inputs=("l", "r"), targets=(target("box:j", arrow=Arrow("j")),)),
        Stage(name="a", root="a", inputs=("box:j",), targets=(target("n", arrow=Arrow("a")),)),
    ]


def test_a_join_that_is_read_and_put_out_is_written_twice_by_one_stage() -> None:
    q = Query("q")
    pairs = joined(q)
    q.output("n", pairs.aggregate("count(*) AS n", window="1s", name="a"))
    q.output("pairs", pairs)
    first, _ = cut(q)
    assert [written.stream for written in first.targets] == ["pairs", "box:j"]


def test_a_union_of_an_aggregate_and_a_source() -> None:
    q = Query("q")
    s = source(q, "s")
    counts = s.aggregate("count(*) AS n", by="k", window="1s", name="a")
    q.output("o", counts.union(source(q, "t").map("k, CAST(v AS bigint) AS n"), name="u").filter("n > 1", name="f"))
    assert cut(q) == [
        Stage(name="a", root="a", inputs=("s",), targets=(target("box:a", arrow=Arrow("a")),)),
        Stage(name="u", root="u", inputs=("box:a", "t"), targets=(target("o", ("f", 0), arrow=Arrow("f")),)),
    ]


def test_a_union_below_a_stateful_box_or_a_union_is_part_of_that() -> None:
    q = Query("q")
    s, t, w = (source(q, name) for name in "stw")
    inner = s.union(t, name="inner")
    q.output("n", inner.aggregate("count(*) AS n", window="1s", name="a"))
    q.output("all", inner.union(w, name="outer"))
    assert [(stage.name, stage.inputs) for stage in cut(q)] == [("a", ("s", "t")), ("outer", ("s", "t", "w"))]


def test_a_diamond_reads_its_source_once() -> None:
    q = Query("q")
    low, high = source(q, "s").filter("v < 5", otherwise=True)
    q.output("o", low.union(high, name="u"))
    assert [(stage.name, stage.inputs) for stage in cut(q)] == [("u", ("s",))]


def test_many_diamonds_in_a_row_do_not_explode() -> None:
    q = Query("q")
    stream = source(q, "s")
    for number in range(60):
        stream = stream.union(stream, name=f"u{number}")
    q.output("o", stream)
    assert [stage.inputs for stage in stages(q.diagram())] == [("s",)]
    assert scans(q.diagram())["u59"] == 2**60


def test_a_self_join_reads_its_source_once() -> None:
    q = Query("q")
    s = source(q, "s")
    q.output("o", s.join(s.map("k AS k2, v AS v2"), on="k = k2", within="1s", name="j"))
    assert [(stage.name, stage.inputs) for stage in cut(q)] == [("j", ("s",))]


def test_an_output_on_a_source_is_a_stage_of_that_source() -> None:
    q = Query("q")
    s = source(q, "s")
    q.output("all", s)
    q.output("some", s.filter("v > 1", name="f").map("k", name="m"))
    assert cut(q) == [
        Stage(
            name="s",
            root="s",
            inputs=("s",),
            targets=(target("all", arrow=Arrow("s")), target("some", ("f", 0), ("m", 0), arrow=Arrow("m"))),
        )
    ]


def test_two_outputs_on_one_arrow() -> None:
    q = Query("q")
    pairs = joined(q)
    q.output("one", pairs)
    q.output("two", pairs)
    (stage,) = cut(q)
    assert stage.targets == (target("one", arrow=Arrow("j")), target("two", arrow=Arrow("j")))


def test_stages_come_after_those_they_read_even_if_declared_before() -> None:
    q = Query("q")
    pairs = joined(q)
    counts = pairs.aggregate("count(*) AS n", window="1s", name="a")
    q.output("o", counts.aggregate("sum(n) AS n", window="1m", name="b"))
    reordered = Query.from_dict({**q.to_dict(), "boxes": q.to_dict()["boxes"][::-1]})
    assert [stage.name for stage in cut(reordered)] == ["j", "a", "b"]


def test_order_keeps_the_declared_order_where_it_can_and_leaves_out_cycles() -> None:
    loop = Map(name="m", input=Arrow("m"), columns="*")
    union = Union(name="u", inputs=(Arrow("nowhere"),))
    diagram = Diagram(name="q", boxes=(loop, union), outputs=(Output(name="o", input=Arrow("m")),))
    assert [box.name for box in order(diagram)] == ["u"]


def test_origins_pass_filter_map_and_union_and_end_at_join_and_aggregate() -> None:
    q = Query("q")
    s = q.source("s", "k string, v int", producers=["p1", "p2"])
    t = source(q, "t")
    both = s.filter("v > 1", name="f").union(t, name="u").map("k, v", name="m")
    counts = both.aggregate("count(*) AS n", by="k", window="1s", name="a")
    pairs = counts.join(t.map("k AS k2"), on="k = k2", within="1s", name="j")
    q.output("o", pairs)
    diagram = q.checked()
    assert origins(diagram, Arrow("f")) == {"s/p1", "s/p2"}
    assert origins(diagram, Arrow("m")) == {"s/p1", "s/p2", "t/0"}
    assert origins(diagram, Arrow("a")) == {"a"}
    assert origins(diagram, Arrow("j")) == {"j"}
    assert all_origins(diagram).names == ("a", "j", "s/p1", "s/p2", "t/0")
    assert sources_of(diagram, "j") == {"s", "t"}
    assert sources_of(diagram, "f") == {"s"}


def test_a_union_gives_new_identities_only_where_sources_meet() -> None:
    q = Query("q")
    s, t = source(q, "s"), source(q, "t")
    s_map = s.map("k AS k2, v AS v2")
    apart = s.union(t, name="apart")
    twice = s.union(t, s, name="twice")
    through_join = s.union(t.join(s_map, on="k = k2", within="1s").map("k, v"), name="through")
    for name, stream in {"o1": apart, "o2": twice, "o3": through_join}.items():
        q.output(name, stream)
    diagram = q.checked()
    hashed = {box.name: union_hashes(diagram, box) for box in diagram.boxes if isinstance(box, Union)}
    assert hashed == {"apart": False, "twice": True, "through": True}


def test_a_stage_knows_its_boxes_and_what_stands_still_without_it() -> None:
    q = Query("q")
    both = q.union(source(q, "a").filter("v > 1", name="f"), source(q, "b"), name="u")
    first = both.aggregate("count(*) AS n", window="1s", name="first")
    q.output("counts", first.map("n", name="m"))
    q.output("counts_of_counts", first.aggregate("count(*) AS n", window="10s", name="second"))
    q.output("apart", source(q, "c"))
    diagram = q.checked()
    by_name = {stage.name: stage for stage in stages(diagram)}
    assert {box.name for box in boxes_of(diagram, by_name["first"])} == {"f", "u", "first", "m"}
    assert {box.name for box in boxes_of(diagram, by_name["second"])} == {"second"}
    assert outputs_behind(diagram, by_name["first"]) == ("counts", "counts_of_counts")
    assert outputs_behind(diagram, by_name["second"]) == ("counts_of_counts",)


def cut_query() -> Diagram:
    q = Query("q")
    low, high = source(q, "s").filter("v < 5", otherwise=True, name="f")
    q.output("low", low.map("k", name="m"))
    q.output("n", high.union(low, name="u").aggregate("count(*) AS n", by="k", window="1s", name="a"))
    return q.checked()


def test_a_cut_arrow_is_a_stream_of_the_stage_that_makes_it() -> None:
    first, unions, last = stages(cut_query(), {(Arrow("f", 1), "u"), (Arrow("f"), "u"), (Arrow("u"), "a")})
    assert (first.name, [each.stream for each in first.targets]) == ("s", ["low", "box:f", "box:f.1"])
    assert unions == Stage(
        name="u", root="u", inputs=("box:f.1", "box:f"), targets=(target("box:u", arrow=Arrow("u")),)
    )
    assert (last.name, last.inputs, last.reads_root) == ("a", ("box:u",), False)
    assert [box.name for box in boxes_of(cut_query(), unions)] == ["u"]
    assert [read_as(cut_query(), unions, Arrow("f", port)) for port in (0, 1)] == ["box:f", "box:f.1"]
    assert [is_stateful(cut_query(), stage) for stage in (first, unions, last)] == [False, False, True]


def test_a_step_behind_a_cut_begins_a_stage_that_reads_its_root() -> None:
    cut_steps = stages(cut_query(), {(Arrow("s"), "f"), (Arrow("f"), "m")})
    by_name = {stage.name: stage for stage in cut_steps}
    assert [stage.name for stage in cut_steps] == ["f", "m", "a"]
    assert by_name["f"] == Stage(
        name="f", root="s", inputs=("s",), targets=(target("box:f", ("f", 0), arrow=Arrow("f")),)
    )
    assert by_name["m"].reads_root
    assert by_name["m"].inputs == ("box:f",)
    assert [box.name for box in boxes_of(cut_query(), by_name["m"])] == ["m"]


def sorting(**outputs: bool) -> Diagram:
    """A WSort of which one stream or the other is an output, or is read by another box that holds state."""
    query = Query("q")
    in_order, late = query.source("s", "x int").wsort("x", timeout="1s", name="sorted")
    for name, is_late in outputs.items():
        query.output(name, late if is_late else in_order)
    return query.diagram()


def test_each_output_of_a_box_with_state_that_is_used_has_a_stage_of_its_own() -> None:
    both = stages(sorting(a=False, b=True))
    assert [(stage.name, stage.root, stage.port, stage.box) for stage in both] == [
        ("sorted", "sorted", 0, "sorted"),
        ("sorted.1", "sorted", 1, "sorted"),
    ]
    assert [[target.stream for target in stage.targets] for stage in both] == [["a"], ["b"]]
    assert [stage.name for stage in stages(sorting(b=True))] == ["sorted.1"], "the other one nobody reads"


def test_another_box_reads_the_second_output_of_one_with_state() -> None:
    query = Query("q")
    _, late = query.source("s", "x int").wsort("x", timeout="1s", name="sorted")
    query.output("o", late.filter("x > 1", name="f").aggregate("count(*) AS n", rows=2, name="counted"))
    first, second = stages(query.checked())
    assert (first.name, first.inputs, [target.stream for target in first.targets]) == (
        "sorted.1", ("s",), ["box:sorted.1"],
    )  # fmt: skip
    assert (second.name, second.inputs) == ("counted", ("box:sorted.1",))

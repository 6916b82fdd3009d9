"""From a deployment file to what each node needs to know."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import limits
from anabranch.deploy.draw import as_text
from anabranch.deploy.parts import assigned, settings_of
from anabranch.deploy.plan import NodePlan, Plan, load_plan
from anabranch.errors import DeploymentError
from anabranch.model.assignment import QueryAssignment
from anabranch.model.links import Link
from anabranch.model.names import internal_stream
from anabranch.query.boxes import Arrow, Diagram, Source
from anabranch.query.builder import Query
from anabranch.query.flow import Reading, circles, cuts, flow
from anabranch.query.graph import Stage, Target, boxes_of, stages
from anabranch.query.parts import reads
from tests.unit.deploy.files import GOOD, QUERY, plan

EXAMPLE = Path(__file__).parents[3] / "examples" / "planetlab.toml"
SERVERS = ("mit", "uw", "ucsd", "ufl")
UNIONS = ("wisc", "purdue")


def role(made: Plan, node: str) -> QueryAssignment:
    """What a node runs of the only query."""
    (found,) = made.nodes[node].assignment.queries.values()
    return found


def upstream(made: Plan, node: str) -> dict[str, tuple[str, ...]]:
    """What a node reads through inlets, and from where."""
    (query,) = made.queries
    return reads(assigned(made, node, query))


def feeds(found: QueryAssignment) -> list[str]:
    return [entry.source for entry in found.entries if entry.feeds]


# --- the paper's experiment ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planetlab() -> Plan:
    return load_plan(EXAMPLE)


def test_the_unions_of_figure_7_are_a_butterfly(planetlab: Plan) -> None:
    query = planetlab.queries["planetlab"]
    assert query.mode == "race"
    assert [(each.name, each.boxes, each.nodes) for each in query.fragments] == [
        ("loads", ("loads", "pings"), UNIONS),
        ("with_load", ("with_load",), ("osu",)),
    ]
    for node, peer in zip(UNIONS, reversed(UNIONS), strict=True):
        found = role(planetlab, node)
        assert [(replica.stage, replica.peers) for replica in found.replicas] == [
            ("loads", (peer,)),
            ("pings", (peer,)),
        ]
        assert found.readers == {"box:loads": ("with_load@osu",), "box:pings": ("with_load@osu",)}
        assert {stream: set(copies) for stream, copies in upstream(planetlab, node).items()} == {
            f"{kind}_{server}": set(query.entrances[f"load_{server}"].nodes)
            for kind, server in product(("load", "ping"), SERVERS)
        }


def test_the_join_of_figure_7_reads_both_copies_of_both_unions(planetlab: Plan) -> None:
    osu = role(planetlab, "osu")
    assert {stream: sorted(copies) for stream, copies in upstream(planetlab, "osu").items()} == {
        "box:loads": sorted(UNIONS),
        "box:pings": sorted(UNIONS),
    }
    (replica,) = osu.replicas
    assert list(replica.inputs) == ["box:pings", "box:loads"]
    assert str(osu.replica(replica.stage)) == "planetlab/with_load@osu#1"
    assert planetlab.queries["planetlab"].copies["paths"] == ("osu",)


def test_the_servers_of_figure_7_have_two_generators_each_and_no_spark(planetlab: Plan) -> None:
    for server in SERVERS:
        found = role(planetlab, server)
        assert feeds(found) == [f"load_{server}", f"ping_{server}"]
        assert found.replicas == ()
    assert [name for name, node in planetlab.nodes.items() if node.needs_spark] == [*UNIONS, "osu"]


def test_every_way_that_rows_take_has_a_delay(planetlab: Plan) -> None:
    ways = {
        (min(name, copy), max(name, copy))
        for name in planetlab.nodes
        for copies in upstream(planetlab, name).values()
        for copy in copies
    }
    peers = {
        (min(pair), max(pair))
        for entrance in planetlab.queries["planetlab"].entrances.values()
        for pair in combinations(entrance.nodes, 2)
    }
    assert planetlab.links.keys() == ways | peers
    assert planetlab.faults


def test_any_one_of_the_entry_points_of_figure_7_may_die(planetlab: Plan) -> None:
    for source, entrance in planetlab.queries["planetlab"].entrances.items():
        assert len(set(entrance.nodes)) == 3, source
        assert source.endswith(f"_{entrance.nodes[0]}")


def test_origins_of_streams_are_those_of_the_whole_query(planetlab: Plan) -> None:
    origins = planetlab.queries["planetlab"].origins
    assert origins["box:loads"] == ("load_mit/mit", "load_ucsd/ucsd", "load_ufl/ufl", "load_uw/uw")
    assert origins["paths"] == ("with_load",)
    assert origins["load_uw"] == ("load_uw/uw",)


# --- other shapes --------------------------------------------------------------------------------------------------


def test_a_query_in_three_layers(tmp_path: Path) -> None:
    made = plan(tmp_path)
    query = made.queries["paths"]
    assert [(each.name, each.boxes, each.nodes) for each in query.fragments] == [
        ("slow", ("slow", "pairs"), ("b", "c")),
        ("counts", ("counts",), ("d",)),
    ]
    a, b, c, d = (role(made, name) for name in "abcd")
    read = {name: upstream(made, name) for name in "abcd"}
    replicas = ("slow@b", "slow@c")
    assert (a.replicas, read["a"], a.readers) == ((), {}, {"ping": replicas, "load": replicas})
    assert (read["b"], b.readers) == (read["c"], {"ping": replicas, "box:pairs": ("counts@d",)})
    assert (read["c"], c.readers) == ({"ping": ("a", "b"), "load": ("a",)}, {"box:pairs": ("counts@d",)})
    assert (read["d"], d.readers) == ({"box:pairs": ("b", "c")}, {})
    assert [each.source for each in b.entries] == ["ping"]
    assert [node.needs_spark for node in made.nodes.values()] == [False, True, True, True]


def test_a_producer_begins_at_its_home_and_goes_round(tmp_path: Path) -> None:
    text = GOOD.replace('ping = ["a", "b"]', 'ping = {nodes = ["a", "b", "c"], producers = {q = "b"}}')
    entrance = plan(tmp_path, text).queries["paths"].entrances["ping"]
    assert entrance.lanes == {"ping/p": ("a", "b", "c"), "ping/q": ("b", "c", "a")}
    assert entrance.feeds == ()


def test_a_feed_runs_where_its_producer_is_at_home(tmp_path: Path) -> None:
    fed = QUERY.replace("producers: [p, q]", 'producers: [p, q], feed: "generator:producer=q"').replace(
        'cpu double"', 'cpu double", feed: generator'
    )
    text = GOOD.replace('ping = ["a", "b"]', 'ping = {nodes = ["a", "b"], producers = {q = "b"}}')
    made = plan(tmp_path, text, fed)
    assert (feeds(role(made, "a")), feeds(role(made, "b"))) == (["load"], ["ping"])


def test_a_feed_may_have_several_nodes_of_which_the_first_is_its_home(tmp_path: Path) -> None:
    fed = QUERY.replace("producers: [p, q]", 'producers: [p, q], feed: "generator:producer=q"')
    entry = 'ping = {nodes = ["a", "b", "c"], feed = ["b", "a"], takeover = "8s"}'
    made = plan(tmp_path, GOOD.replace('ping = ["a", "b"]', entry), fed)
    entrance = made.queries["paths"].entrances["ping"]
    assert (entrance.feeds, entrance.takeover_us, entrance.lanes["ping/q"]) == (("b", "a"), 8_000_000, ("b", "c", "a"))
    entries = {name: role(made, name).entries[0] for name in "abc"}
    assert [each.feed_hosts for each in entries.values()] == [("b", "a"), ("b", "a"), ()]
    assert [each.feeds for each in entries.values()] == [True, True, False]
    assert "source ping enters at a, b, c, fed by b, or by a when it is gone for 8s" in as_text(made)
    assert "goes on with the feed of ping when its node is gone" in as_text(made)


@pytest.mark.parametrize(
    ("entry", "feed", "code", "story"),
    [
        ('feed = ["a", "b"]', None, "bad-feed", "The source 'ping' has no feed."),
        ('feed = ["a", "x"]', "generator:producer=q", "unknown-node", "There is no node 'x'."),
        ('feed = ["a", "d"]', "generator:producer=q", "unknown-node", "'d' is no entry point of the source 'ping'"),
        ('feed = ["a", "a"]', "generator:producer=q", "node-twice", "a is listed twice"),
        (
            'feed = ["a", "b"], producers = {q = "b"}',
            "generator:producer=q",
            "bad-feed",
            "begins at a, and its producer",
        ),
        ('feed = ["a", "b"]', "spark:rate,lane=l,number=n", "bad-feed", "keeps its place in a checkpoint"),
        ('takeover = "5s"', "generator:producer=q", "bad-feed", "has no second node"),
        (
            'feed = ["a", "b"], takeover = "10ms"',
            "generator:producer=q",
            "bad-value",
            "cannot be taken over after 10ms",
        ),
    ],
)
def test_a_feed_that_cannot_have_several_nodes_is_refused(
    tmp_path: Path, entry: str, feed: str | None, code: str, story: str
) -> None:
    fed = QUERY if feed is None else QUERY.replace("producers: [p, q]", f'producers: [p, q], feed: "{feed}"')
    text = GOOD.replace('ping = ["a", "b"]', f'ping = {{nodes = ["a", "b"], {entry}}}')
    with pytest.raises(DeploymentError) as caught:
        plan(tmp_path, text, fed)
    found = [(each.code, each.message) for each in caught.value.mistakes]
    assert any(told == code and story in message for told, message in found), found


def test_a_feed_of_plain_clients_has_one_node(tmp_path: Path) -> None:
    fed = QUERY.replace('cpu double"', 'cpu double", feed: generator')
    text = GOOD.replace('load = ["a"]', 'load = {nodes = ["a", "b"], feed = ["a", "b"]}')
    with pytest.raises(DeploymentError, match="declares no producer"):
        plan(tmp_path, text, fed)


def test_a_feed_of_spark_and_a_node_that_only_writes_need_spark(tmp_path: Path) -> None:
    fed = plan(tmp_path, query=QUERY.replace('cpu double"', 'cpu double", feed: "spark:rate"'))
    assert fed.nodes["a"].needs_spark
    text = GOOD.replace("[queries.paths.place]", '[queries.paths.write]\nquick = "a"\n[queries.paths.place]')
    for writer in ("console", "jsonl:x", "spark:parquet,path=x"):  # the types of what they write are Spark's to say
        query = QUERY.replace("quick: slow.1", f'quick: {{input: slow.1, to: "{writer}"}}')
        made = plan(tmp_path, text, query)
        assert made.nodes["a"].needs_spark
        assert upstream(made, "a") == {"quick": ("b", "c")}
        assert role(made, "b").readers["quick"] == ("a",)
        assert [each.output for each in role(made, "a").writers] == ["quick"]


@pytest.mark.parametrize("writer", ["", "console", "jsonl:x", "spark:parquet,path=x"])
@pytest.mark.parametrize("feed", ["", "generator", "spark:rate"])
def test_what_a_node_is_said_to_need_is_what_it_starts(tmp_path: Path, writer: str, feed: str) -> None:
    query = QUERY.replace('cpu double"', f'cpu double", feed: "{feed}"') if feed else QUERY
    query = query.replace("quick: slow.1", f'quick: {{input: slow.1, to: "{writer}"}}') if writer else query
    text = GOOD.replace("[queries.paths.place]", '[queries.paths.write]\nquick = "a"\n[queries.paths.place]')
    made = plan(tmp_path, text if writer else GOOD, query)
    said = {name: node.needs_spark for name, node in made.nodes.items()}
    assert said == {name: assigned(made, name, "paths").needs_spark for name in made.nodes}
    assert said == {"a": bool(writer) or feed.startswith("spark"), "b": True, "c": True, "d": True}


def test_the_writers_of_an_output_with_one_copy_run_beside_it(tmp_path: Path) -> None:
    query = QUERY.replace("per_target: counts", "per_target: {input: counts, to: console}")
    made = plan(tmp_path, query=query)
    assert made.queries["paths"].writers == {"per_target": "d"}
    assert [each.output for each in role(made, "d").writers] == ["per_target"]


def test_a_node_without_a_query_waits(tmp_path: Path) -> None:
    made = plan(tmp_path, GOOD.replace("[queries.paths]", '[nodes.e]\naddress = "h:1"\n[queries.paths]'))
    assert (made.nodes["e"].assignment.queries, made.nodes["e"].needs_spark) == ({}, False)


def test_settings_of_a_node_go_before_those_of_all(tmp_path: Path) -> None:
    text = GOOD.replace(
        "[nodes]",
        '[spark]\nmaster = "local[1]"\nbatch_interval = "2s"\nconf = {spark.a.b = 1, "spark.c" = true}\n[nodes]',
    )
    text = text.replace('7001"', '7001", site = "east", state = "data/a", spark = {conf = {spark.c = "no"}}')
    text = text.replace('7002"', '7002", spark = {master = "spark://h:7077", batch_interval = "0s"}')
    made = plan(tmp_path, text)

    def settings(node: NodePlan) -> tuple[object, ...]:
        return node.site, node.state, node.master, settings_of(node).batch_interval_us, dict(node.conf)

    assert settings(made.nodes["a"]) == (
        "east",
        tmp_path / "data" / "a",
        "local[1]",
        2_000_000,
        {"spark.a.b": "1", "spark.c": "no"},
    )
    assert settings(made.nodes["b"]) == ("b", None, "spark://h:7077", 0, {"spark.a.b": "1", "spark.c": "true"})
    plain = plan(tmp_path).nodes["a"]
    assert (plain.master, plain.batch_interval_us) == ("local[*]", limits.BATCH_INTERVAL_US)


def test_a_link_of_nodes_goes_before_one_of_sites(tmp_path: Path) -> None:
    sites = {"7001": "east", "7002": "east", "7003": "west", "7004": "west"}
    text = GOOD
    for port, site in sites.items():
        text = text.replace(f'{port}"', f'{port}", site = "{site}"')
    text += """
[[links]]
between = ["a", "c"]
delay = "1ms"
[[links]]
between = ["east", "west"]
delay = "40ms"
jitter = "5ms"
[[links]]
between = ["east", "east"]
rate = "8Mbit/s"
"""
    far, near = Link(delay_us=40_000, jitter_us=5_000), Link(rate_bytes_s=1_000_000)
    assert plan(tmp_path, text).links == {
        ("a", "b"): near,
        ("a", "c"): Link(delay_us=1_000),
        ("a", "d"): far,
        ("b", "c"): far,
        ("b", "d"): far,
    }


# --- cutting -------------------------------------------------------------------------------------------------------


def diagram() -> Diagram:
    """Every kind of box in every position: shared, with two ports, united, joined, aggregated, one above another."""
    q = Query("q")
    left = q.source("left", "k string, v int")
    right = q.source("right", "k2 string, w int")
    low, high = left.filter("v < 5", otherwise=True, name="split")
    both = low.union(high.map("k, v", name="kept"), name="both")
    pairs = both.join(right.drop(0.1, name="some"), on="k = k2", within="1s", name="pairs")
    sums = pairs.filter("v > 1", name="wanted").aggregate("sum(v) AS s", by="k", window="1s", name="sums")
    q.output("high", high)
    q.output("both", both)
    q.output("pairs", pairs.map("k, w", name="short"))
    q.output("sums", sums)
    return q.checked()


def test_a_filter_behind_a_cut_begins_a_stage_of_its_own() -> None:
    placed = dict.fromkeys([box.name for box in diagram().boxes], ("a",)) | {"kept": ("b",), "short": ("b",)}
    found = {stage.name: stage for stage in flow(diagram(), placed).stages}
    kept = Target(stream="box:kept", path=(("kept", 0),), arrow=Arrow("kept"))
    assert found["kept"] == Stage(name="kept", root="split", port=1, inputs=("box:split.1",), targets=(kept,))
    short = Target(stream="pairs", path=(("short", 0),), arrow=Arrow("short"))
    assert found["short"] == Stage(name="short", root="pairs", inputs=("box:pairs",), targets=(short,))
    assert [found[name].reads_root for name in ("kept", "short", "pairs", "left")] == [True, True, False, False]
    assert [target.stream for target in found["left"].targets] == ["high", "box:split.1"]
    assert found["pairs"].inputs == ("left", "box:kept", "right")


def test_placed_together_it_is_cut_as_on_one_node() -> None:
    placed = dict.fromkeys([box.name for box in diagram().boxes], ("a", "b"))
    assert flow(diagram(), placed).stages == stages(diagram())


NODES = ("a", "b", "c")
PLACES = st.fixed_dictionaries(
    {
        box.name: st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True).map(tuple)
        for box in diagram().boxes
    }
)


@given(PLACES)
def test_every_box_runs_on_its_nodes_and_what_is_read_is_made(placed: dict[str, tuple[str, ...]]) -> None:
    found = flow(diagram(), placed)
    made: set[str] = {source.name for source in diagram().sources}
    for stage in found.stages:  # in the order of flow
        assert set(stage.inputs) <= made
        made |= {target.stream for target in stage.targets}
        computed = [box for box in boxes_of(diagram(), stage) if not isinstance(box, Source)]
        assert {frozenset(placed[box.name]) for box in computed} <= {frozenset(found.run_on[stage.name])}
    assert len({stage.name for stage in found.stages}) == len(found.stages)
    run = {box.name for stage in found.stages for box in boxes_of(diagram(), stage)}
    assert run >= {box.name for box in diagram().boxes if not isinstance(box, Source)}
    assert made >= {output.name for output in diagram().outputs}
    targets = [target.stream for stage in found.stages for target in stage.targets]
    assert len(targets) == len(set(targets))


@given(PLACES)
def test_a_cut_arrow_is_a_stream_that_its_readers_read(placed: dict[str, tuple[str, ...]]) -> None:
    found = flow(diagram(), placed)
    readings = {(each.reader, each.stream): each.copies for each in found.readings()}
    for arrow, reader in cuts(diagram(), placed):
        source = isinstance(diagram().box(arrow.box), Source)
        stream = arrow.box if source else internal_stream(str(arrow))
        assert set(found.made_on[stream]) == set(placed[arrow.box])
        for node in set(placed[reader]) - set(placed[arrow.box]):
            assert set(readings[node, stream]) == set(placed[arrow.box])


@given(PLACES)
def test_without_a_circle_nodes_can_be_put_in_order(placed: dict[str, tuple[str, ...]]) -> None:
    found = flow(diagram(), placed)
    edges = {(copy, each.reader) for each in found.readings() if each.stream.startswith("box:") for copy in each.copies}
    reach = set(edges)
    for middle, first, last in product(NODES, repeat=3):
        if (first, middle) in reach and (middle, last) in reach:
            reach.add((first, last))
    circular = any((node, node) in reach for node in NODES)
    told = circles(diagram(), found)
    assert bool(told) is circular
    for circle in told:
        for here, above in zip(circle, [*circle[1:], circle[0]], strict=True):
            assert isinstance(here, Reading)
            assert above.reader in here.copies

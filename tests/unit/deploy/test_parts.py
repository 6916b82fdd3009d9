"""What a node is told to do, of what the plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.parts import assigned, relays_of
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import ConfigError
from anabranch.model.ids import QueryId
from anabranch.model.links import Cut
from tests.unit.deploy.files import GOOD, QUERY, plan

EXAMPLE = Path(__file__).parents[3] / "examples" / "planetlab.toml"


def siblings(made: Plan, names: str) -> list[tuple[str, ...]]:
    return [made.nodes[name].assignment.queries[QueryId("paths")].siblings for name in names]


def test_an_entry_point_knows_its_peers_and_which_feeds_it_runs() -> None:
    whole = load_plan(EXAMPLE)
    part = assigned(whole, "mit", "planetlab")
    assert part.stages == ()
    assert part.feeds == {"load_mit", "ping_mit"}
    assert part.feeds < part.entries
    for source, peers in part.peers.items():
        nodes = whole.queries["planetlab"].entrances[source].nodes
        assert peers == {peer: str(whole.nodes[peer].address) for peer in nodes if peer != "mit"}
        assert peers


def test_a_replica_knows_where_each_copy_is_and_who_reads_its_own() -> None:
    whole = load_plan(EXAMPLE)
    part = assigned(whole, "osu", "planetlab")
    both = {name: str(whole.nodes[name].address) for name in ("wisc", "purdue")}
    assert part.upstream == {"box:loads": both, "box:pings": both}
    assert assigned(whole, "wisc", "planetlab").readers == {"box:loads": ("osu",), "box:pings": ("osu",)}
    assert [stage.name for stage in part.all_stages] == ["loads", "pings", "with_load"]


def test_links_that_are_emulated_or_may_be_hurt_go_through_relays(tmp_path: Path) -> None:
    slow = '\n[[links]]\nbetween = ["a", "c"]\ndelay = "5ms"\n'
    relays = relays_of(plan(tmp_path, GOOD + slow), "c")
    assert {name: told.delay_us for name, told in relays.statistics().items()} == {"a": 5_000}
    with pytest.raises(ConfigError, match="faults = true"):
        relays.set("a", Cut())
    relays = relays_of(plan(tmp_path, "faults = true\n" + GOOD + slow), "c")
    assert {name: told.delay_us for name, told in relays.statistics().items()} == {"a": 5_000, "b": 0, "d": 0}
    relays.set("b", Cut())
    relays.close()


def test_a_replica_can_be_rebuilt_from_those_that_do_all_that_it_does() -> None:
    plan = load_plan(EXAMPLE)
    assert assigned(plan, "wisc", "planetlab").siblings == {"purdue": str(plan.nodes["purdue"].address)}
    assert assigned(plan, "osu", "planetlab").siblings == {}
    assert assigned(plan, "mit", "planetlab").siblings == {}  # entry points learn from each other, in another way


def test_outputs_that_no_node_reads_are_compared_with_the_other_copies(tmp_path: Path) -> None:
    """``quick`` is made by the entry point b, too; ``per_target`` by one node."""
    whole = plan(tmp_path)
    compared = {name: assigned(whole, name, "paths").compared for name in "abcd"}
    address = {name: str(whole.nodes[name].address) for name in "bc"}
    assert compared == {"a": {}, "b": {"quick": {"c": address["c"]}}, "c": {"quick": {"b": address["b"]}}, "d": {}}


def test_an_output_that_a_node_reads_is_compared_there(tmp_path: Path) -> None:
    writer = QUERY.replace("quick: slow.1", 'quick: {input: slow.1, to: "console"}')
    placed = GOOD + '\n[queries.paths.write]\nquick = "a"\n'
    assert assigned(plan(tmp_path, placed, writer), "b", "paths").compared == {}


def test_nobody_does_all_that_a_node_with_several_fragments_does(tmp_path: Path) -> None:
    apart = GOOD.replace('ping = ["a", "b"]', 'ping = ["a"]')
    assert siblings(plan(tmp_path, apart), "abcd") == [
        (),
        ("c",),
        ("b",),
        (),
    ]
    both = apart.replace('counts = "d"', 'counts = ["b", "d"]')
    assert siblings(plan(tmp_path, both), "abcd") == [(), (), (), ()]


def test_an_entry_point_has_rows_in_an_order_of_its_own(tmp_path: Path) -> None:
    assert siblings(plan(tmp_path), "bc") == [(), ()]

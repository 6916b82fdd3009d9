"""What a node is told to do, of what the plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.parts import assigned, relays_of
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import ConfigError
from anabranch.model.links import Cut
from anabranch.query.parts import parts
from tests.unit.deploy.files import GOOD, QUERY, plan

EXAMPLE = Path(__file__).parents[3] / "examples" / "planetlab.toml"


def siblings(made: Plan, names: str) -> list[dict[str, tuple[str, ...]]]:
    """Per node and replica on it, the nodes that it can be rebuilt from."""
    return [
        {part.assignment.part: tuple(part.siblings) for part in parts(assigned(made, name, "paths")) if part.stages}
        for name in names
    ]


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
    assert assigned(whole, "wisc", "planetlab").readers == {
        "box:loads": ("with_load@osu",),
        "box:pings": ("with_load@osu",),
    }
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


def test_each_replica_of_a_node_is_rebuilt_from_those_that_run_the_same_stages(tmp_path: Path) -> None:
    apart = GOOD.replace('ping = ["a", "b"]', 'ping = ["a"]')
    assert siblings(plan(tmp_path, apart), "abcd") == [{}, {"slow": ("c",)}, {"slow": ("b",)}, {"counts": ()}]
    both = apart.replace('counts = "d"', 'counts = ["b", "d"]')
    assert siblings(plan(tmp_path, both), "abcd") == [
        {},
        {"slow": ("c",), "counts": ("d",)},
        {"slow": ("b",)},
        {"counts": ("b",)},
    ]


def test_a_replica_on_an_entry_point_reads_all_of_them_and_can_be_rebuilt(tmp_path: Path) -> None:
    """``b`` takes in ``ping`` itself."""
    made = plan(tmp_path)
    assert siblings(made, "bc") == [{"slow": ("c",)}, {"slow": ("b",)}]
    entry, replica = parts(assigned(made, "b", "paths"))
    assert (entry.entries, entry.stages, entry.readers) == ({"ping"}, (), {"ping": ("slow@b", "slow@c")})
    assert set(replica.upstream["ping"]) == {"a", "b"}
    assert replica.upstream.keys() == {"ping", "load"}
    assert not replica.entries
    (elsewhere,) = parts(assigned(made, "c", "paths"))
    assert (elsewhere.stages, elsewhere.upstream) == (replica.stages, replica.upstream)


def test_what_has_no_peers_stays_together(tmp_path: Path) -> None:
    """The whole query on one host is one part, which reads its own logs; and so is a stage beside an only entry
    point."""
    one = GOOD.replace('on = ["b", "c"]', 'on = "a"').replace('counts = "d"', 'counts = "a"').replace('"a", "b"', '"a"')
    (whole,) = parts(assigned(plan(tmp_path, one), "a", "paths"))
    assert (whole.upstream, whole.readers, whole.entries) == ({}, {}, {"ping", "load"})

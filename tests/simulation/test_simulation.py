"""The protocol of racing replicas under simulated faults: it holds for every seed, and a broken one is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from anabranch.sim.diagrams import PAIRINGS, SUMMINGS, THIRDS
from anabranch.sim.faults import Fault, Trouble
from anabranch.sim.role import Protocol
from anabranch.sim.run import Report, Setting, simulate
from anabranch.sim.world import SECOND
from tests.amounts import is_long
from tests.simulation.broken import BROKEN

FAULTY = (4, 5, 8, 9, 11, 12, 13, 14, 16, 18, 19, 20, 22, 24, 26, 27, 29, 32, 33, 35, 36, 39, 40, 41, 44, 46, 47, 48)
"""Of the first fifty seeds those that show most in their time: all that ``test_the_runs_are_not_empty`` asks for."""
SEEDS: Sequence[int] = range(50) if is_long() else FAULTY
TOPOLOGIES = range(24)
AT_THE_ENTRANCE = (Fault.ENTRY_CRASH, Fault.ENTRY_PAUSE, Fault.PRODUCER_RESTART, Fault.SITE_DEAD)
NOTICED_BY = {
    "vouching without floors": 3,
    "acknowledging before the commit": 1,
    "a leader that gives way to anyone": 7,
    "a candidate that gives up": 2,
    "a producer that cannot take its lane along": 7,
    "a push answered before its group is durable": 19,
    "clients forgotten by a new leader": 1,
    "a deep layer that nobody waits for": 1,
    "a horizon that waits for the dead": 6,
    "a horizon that waits for what a box holds back": 14,
    "a feed that nobody takes over": 16,
    "a feed that two hosts fight for": 2,
    "entries shown before their leader has stored them": 33,
}
"""Seeds to try first: most of the others do not notice it."""

SHOWN_BY = {
    "a fragment that is cut off as a whole": ("replica-without-a-like-is-not-cut-off.toml", "nobody has what it had"),
    "a new life that the first peer does not hear of": ("first-peer-hears-of-a-new-life.toml", "still learns"),
    "a vote without memory": ("forgetful-entry-point-votes.toml", "released"),
    "one that holds more and does not lead": ("who-holds-more-leads-first.toml", "has waited"),
    "a voter that asks to lead at once": ("voter-asks-to-lead-at-once.toml", "lost the lead"),
    "a peer that is not looked for again": ("peer-is-looked-for-again.toml", "has waited"),
    "a feed that is taken by one that slept": ("copy-of-a-feed-that-slept.toml", "takes the feed from"),
    "a feed that moves while two hosts cannot talk": ("two-hosts-of-a-feed-cannot-talk.toml", "the feed moves"),
    "a hole that readers do not hear of": ("reader-hears-of-a-hole.toml", "has not passed"),
}
"""What random faults hardly ever show: several things must happen within a second."""

OF_OTHER_TOPOLOGIES = {
    "an entry point that nobody has written down": 1,
    "an entry point that begins when one peer has heard of it": 1,
    "a horizon that waits for the fastest fragment": 108,
    "a Union that keeps identities": 1,
}
"""What the classic topology cannot show, with the seed to try first."""

SCENARIO_DIRECTORY = Path(__file__).with_name("scenarios")
SCENARIOS = sorted(SCENARIO_DIRECTORY.glob("*.toml"))


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """With the classic topology, so that no other topology changes what these seeds show."""
    return [simulate(seed, setting=Setting.classic(seed)) for seed in SEEDS]


def test_every_seed_holds(reports: list[Report]) -> None:
    assert [(report.seed, report.broken) for report in reports if report.broken] == []


def test_every_topology_holds() -> None:
    """Any one, and what happens there is not nothing."""
    reports = [simulate(seed) for seed in TOPOLOGIES]
    assert [(report.seed, report.broken) for report in reports if report.broken] == []
    settings = [Setting.drawn(seed) for seed in TOPOLOGIES]
    assert {setting.third for setting in settings} == {None, *THIRDS}
    assert {setting.two_ways for setting in settings} == {setting.up_late for setting in settings} == {False, True}
    faults = sum((report.faults for report in reports), Counter[str]())
    assert {fault for fault in Fault if not faults[str(fault)]} == set()
    assert sum(report.rebuilds for report in reports) > 10
    assert sum(report.rejoined for report in reports) > 30
    assert sum(report.held_back for report in reports) > 50
    assert sum(report.cuts for report in reports) > 5
    assert sum(report.tuples for report in reports) > 100 * len(TOPOLOGIES)


def test_the_runs_are_not_empty(reports: list[Report]) -> None:
    """Every kind of fault happens, readers are cut off, replicas are rebuilt, and tuples flow all the time."""
    faults = sum((report.faults for report in reports), Counter[str]())
    assert {fault for fault in Fault if faults[str(fault)] < 5} == set()
    assert sum(report.rebuilds for report in reports) > 20
    assert sum(report.rejoined for report in reports) > 50
    assert sum(report.held_back for report in reports) > 50
    assert sum(report.holes for report in reports) > 50
    assert sum(report.moved for report in reports) > 20
    assert sum(report.repeated for report in reports) > 5
    assert sum(report.cuts for report in reports) > 20
    assert sum(report.takeovers for report in reports) > 20
    drawn = [Setting.classic(seed) for seed in SEEDS]
    assert {setting.shared for setting in drawn} == {False, True}
    assert sum(setting.begins_late is not None for setting in drawn) > 10
    assert {setting.first for setting in drawn if setting.horizon_us is not None} == PAIRINGS.keys()
    assert {setting.first for setting in drawn} == PAIRINGS.keys()
    assert {setting.second for setting in drawn} == SUMMINGS.keys()
    assert min(report.tuples for report in reports) > 10  # a producer may die early
    assert sum(report.tuples for report in reports) > 100 * len(SEEDS)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    if rule in SHOWN_BY:
        scenario, story = SHOWN_BY[rule]
        broken = play(SCENARIO_DIRECTORY / scenario, BROKEN[rule]).broken
        assert broken is not None
        assert story in broken
        return
    if rule in OF_OTHER_TOPOLOGIES:
        seeds = (OF_OTHER_TOPOLOGIES[rule], *range(60))
        assert any(simulate(seed, protocol=BROKEN[rule]).broken for seed in seeds)
        return
    faults = AT_THE_ENTRANCE if rule == "entries shown before a peer has them" else tuple(Fault)
    first = NOTICED_BY.get(rule, 0)
    seeds = (first, *(seed for seed in range(60) if seed != first))
    assert any(
        simulate(seed, faults=faults, protocol=BROKEN[rule], setting=Setting.classic(seed)).broken for seed in seeds
    )


def test_topologies_are_of_all_kinds() -> None:
    """One to three layers, one to three replicas, one to five entry points, and hosts with several roles."""
    topologies = [Setting.drawn(seed).placed() for seed in range(200)]
    assert {topology.layers for topology in topologies} == {1, 2, 3}
    assert {len(names) for topology in topologies for names in topology.fragments} == {1, 2, 3}
    assert {len(names) for topology in topologies for names in topology.entries.values()} == {1, 2, 3, 4, 5}
    roles = {len(names) for topology in topologies for names in topology.hosts.values()}
    assert roles >= {1, 2, 3}
    assert any(topology.reads_at_home for topology in topologies)


def test_every_part_can_be_reached() -> None:
    """Whoever reads is a reader of what it reads, and whoever has a peer is its peer."""
    for seed in range(100):
        roles = Setting.drawn(seed).placed().roles(limit=10, lane_limit=10, horizon_us=None, owned=())
        for name, role in roles.items():
            for stream, copies in role.upstream.items():
                assert all(name in roles[copy].readers[stream] for copy in copies)
            assert all(name in roles[peer].peers and roles[peer].stages == role.stages for peer in role.peers)
            for source, peers in role.entry_peers.items():
                assert all(name in roles[peer].entry_peers[source] for peer in peers)


def test_without_faults_nothing_is_rebuilt() -> None:
    report = simulate(3, faults=())
    assert (report.broken, report.rebuilds, report.troubles) == (None, 0, ())


def test_a_seed_replays_to_the_byte() -> None:
    """In another process too, where sets of strings have another order."""
    report = simulate(11)
    program = "from anabranch.sim.run import simulate; print('\\n'.join(simulate(11).trace))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "".join(f"{line}\n" for line in report.trace)
    assert len(done.stdout) > 1_000


def play(path: Path, protocol: Protocol | None = None) -> Report:
    """The run that a scenario file describes."""
    scenario = tomllib.loads(path.read_text())
    troubles = [
        Trouble(
            fault=Fault(each["fault"]),
            at_us=round(each["at"] * SECOND),
            for_us=round(each.get("for", 0) * SECOND),
            node=each["node"],
            other=each.get("other"),
        )
        for each in scenario["troubles"]
    ]
    setting = Setting(
        limit=scenario.get("limit"),
        owned=scenario.get("owned", False),
        standby=scenario.get("standby", False),
        fed=scenario.get("fed", False),
        shared=scenario.get("shared", False),
        greets=scenario.get("greets", False),
        refuses=scenario.get("refuses", False),
        up_late=scenario.get("up late", False),
        topology=scenario.get("topology"),
        first=scenario.get("first", "join"),
        second=scenario.get("second", "aggregate"),
        third=scenario.get("third"),
        two_ways=scenario.get("two ways", False),
        begins_late=scenario.get("begins late"),
        lane_limit=scenario.get("lane limit", 1_000),
        horizon_us=round(scenario["horizon"] * SECOND) if "horizon" in scenario else None,
    )
    return simulate(scenario["seed"], troubles=troubles, setting=setting, protocol=protocol)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_failed_once_holds(path: Path) -> None:
    assert play(path).broken is None

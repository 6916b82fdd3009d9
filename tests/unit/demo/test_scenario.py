"""The story of the demo: the same for a seed, and every slow ping has a cause that the load readings can tell."""

from __future__ import annotations

import pytest

from anabranch.demo.scenario import BUSY_CPU, SERVERS, SLOW_MS, WITHIN_S, Cause, Scenario, Turn, query
from anabranch.query.validate import validate


def told(seconds: float, rate: float, seed: int) -> tuple[Scenario, list[Turn]]:
    scenario = Scenario(seconds, rate, seed)
    return scenario, [scenario.next_turn() for _ in range(scenario.turns)]


def test_a_seed_is_a_story() -> None:
    assert told(10, 100, 3)[1] == told(10, 100, 3)[1]
    assert told(10, 100, 3)[1] != told(10, 100, 4)[1]


def test_the_query_is_in_order() -> None:
    assert validate(query().checked()) == []


@pytest.mark.parametrize(("seconds", "rate"), [(5, 300), (10, 7), (6.7, 33.3)])
def test_the_rate_is_kept(seconds: float, rate: float) -> None:
    scenario, turns = told(seconds, rate, 1)
    numbers = [ping.n for turn in turns for ping in turn.pings]
    assert numbers == list(range(int(scenario.turns / 10 * rate)))


@pytest.mark.parametrize("seconds", [5, 5.3, 7, 30, 61.7])
@pytest.mark.parametrize("seed", range(5))
def test_every_reading_near_a_slow_ping_tells_its_cause(seconds: float, seed: int) -> None:
    _, turns = told(seconds, 300, seed)
    readings = [(turn.at_s, server, cpu) for turn in turns for server, cpu in turn.loads.items()]
    causes = set()
    for turn in turns:
        for ping in turn.pings:
            assert (ping.rtt_ms > SLOW_MS) == (ping.cause is not None)
            if ping.cause is None:
                continue
            causes.add(ping.cause)
            near = [cpu for at, server, cpu in readings if server == ping.target and abs(at - turn.at_s) < WITHIN_S]
            assert near, f"seed {seed}: nothing is known about ping {ping}"
            assert {cpu >= BUSY_CPU for cpu in near} == {ping.cause is Cause.BUSY_SERVER}, f"seed {seed}: {ping}"
    assert causes == set(Cause), f"seed {seed}"


def test_all_paths_are_pinged_alike() -> None:
    _, turns = told(5, 300, 1)
    paths = [(ping.source, ping.target) for turn in turns for ping in turn.pings]
    assert {paths.count(path) for path in paths} == {50}
    assert len(set(paths)) == len(SERVERS) * (len(SERVERS) - 1)

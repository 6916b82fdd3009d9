"""How a node is, for people: tables, and one sentence that names the lane that holds the others."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from typing import Any

import pytest

from anabranch.cli.status import _lanes, slowest_lane
from anabranch.model.links import Cut, Link
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.node.relays import Relays
from anabranch.runtime.status import to_plain
from tests.statuses import host_status
from tests.unit.cli.conftest import Cli, TalkingNode

NOON_US = 1_769_860_800 * SECOND


def lane(punctuation_us: int, *, silent_s: float = 0.5, closed: bool = False) -> dict[str, Any]:
    return {
        "next_number": 11,
        "punctuation_us": punctuation_us,
        "silent_us": int(silent_s * SECOND),
        "closed": closed,
    }


def a_node(**lanes: dict[str, Any]) -> dict[str, Any]:
    sources = {
        name: {"rows_in": 1234, "bytes_in": 9, "late_rows": 2, "lanes": {f"{name}/0": facts}}
        for name, facts in lanes.items()
    }
    host: dict[str, Any] = {
        "node": "a",
        "address": "127.0.0.1:7700",
        "state": "running",
        "intake": "open",
        "uptime_s": 75.5,
        "executors": None,
        "spark": None,
        "links": {},
    }
    empty: dict[str, Any] = {key: {} for key in ("peers", "feeds", "writers", "compared", "alarms")}
    query: dict[str, Any] = {
        "state": "running",
        "error": None,
        **empty,
        "sources": sources,
        "stages": {
            "join_1": {
                "state": "running",
                "error": None,
                "inputs": {"ping": {"lag_rows": 40}, "load": {"lag_rows": 2}},
                "caught_up": False,
                "rows_out": 17,
                "batches": 3,
                "batch_ms": 210.4,
                "running": True,
                "waits_for": {"origin": "load/0", "punctuation_us": NOON_US, "punctuation": "noon"},
            }
        },
        "streams": {
            "network_problems": {
                "kind": "output",
                "incarnation": "a1",
                "rows": 17,
                "bytes": 123_456,
                "first_id": 1,
                "last_id": 17,
                "rows_in": 17,
                "readers": {"desk": {"seq": 3, "lag_rows": 5}},
                "cut_off": ["slow"],
            }
        },
    }
    return {**host, "queries": {"slow_paths": query}}


def of(node: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The same node, with this said of its query."""
    return {**node, "queries": {"slow_paths": node["queries"]["slow_paths"] | facts}}


def test_the_tables_say_what_there_is(
    cli: Cli, node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    node.told = a_node(ping=lane(NOON_US), load=lane(NOON_US - SECOND))
    result = cli("status", address)
    assert result.exit_code == 0, result.output
    told = result.stdout
    assert "query slow_paths at 127.0.0.1:7700: running, up 1 min 16 s" in told
    words = [" ".join(line.split()) for line in told.splitlines()]
    assert "ping 1,234 rows in, 2 late" in words
    assert "load/0 10 2026-01-31 11:59:59.000000 0.5 s" in words
    assert "join_1 running 42 17 3 210 load/0 at 2026-01-31 12:00:00.000000" in words
    assert "network_problems output 17 123.5 kB 1-17 a1 desk (5 behind)" in words
    assert "slow (cut off)" in words


def test_a_lane_that_is_held_says_what_it_waits_for(
    cli: Cli, node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    held = {"origin": "load/0", "punctuation_us": NOON_US - 3600 * SECOND, "latest_us": NOON_US + SECOND}
    node.told = a_node(ping=lane(NOON_US) | {"held": held}, load=lane(NOON_US - 3600 * SECOND))
    shown = " ".join(cli("status", address).stdout.split())
    assert "ping/0 10 2026-01-31 12:00:00.000000 0.5 s held: waits for load/0, at 2026-01-31 11:00:00.000000" in shown
    assert "Rows wait at the horizon: ping/0 for load/0." in shown


def test_links_are_told_where_there_are_any(
    cli: Cli, node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with closing(
        Relays("a", {"b": Link(delay_us=20_000, rate_bytes_s=125_000), "c": Link()}, allow_faults=True)
    ) as links:
        links.set("c", Cut())
        node.told = a_node(ping=lane(NOON_US)) | {
            "links": {name: asdict(link) for name, link in links.statistics().items()}
        }
        words = [" ".join(line.split()) for line in cli("status", address).stdout.splitlines()]
    assert "b open 20ms 125.0 kB/s 0 0 B 0 B" in words
    assert "c cut 0 0 B 0 B" in words


def test_troubles_are_told(cli: Cli, node: TalkingNode, address: str) -> None:
    node.told = a_node(ping=lane(NOON_US)) | {"intake": "Intake has stopped: 3 MiB are free.", "executors": 0}
    queries: Any = node.told["queries"]
    queries["slow_paths"]["stages"]["join_1"] |= {"state": "failed", "error": "Stage join_1 failed in Spark."}
    told = cli("status", address).stdout
    assert "Intake has stopped" in told
    assert "Batches wait for executors" in told
    assert "stage join_1: Stage join_1 failed in Spark." in told


def test_shared_lanes_say_who_leads_and_who_is_away(
    cli: Cli, node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    shared = {
        "state": "leads",
        "leader": "a",
        "term": 3,
        "held": 1_012,
        "released": 1_011,
        "peers": {"b": 1_011, "c": 7},
    }
    peers = {"b": {"state": "there", "error": None}, "c": {"state": "away", "error": "nothing listens there"}}
    node.told = of(a_node(ping=lane(NOON_US) | {"shared": shared}), peers=peers)
    shown = cli("status", address).stdout
    (line,) = (line for line in shown.splitlines() if "leads" in line)
    assert line.split() == ["ping/0", "leads", "a", "3", "1,012", "1,011", "b", "1,011,", "c", "7"]
    assert "entry point c cannot be reached: nothing listens there" in shown


def test_a_node_with_several_queries_shows_each(cli: Cli, node: TalkingNode, address: str) -> None:
    queries: Any = a_node(ping=lane(NOON_US))["queries"]
    failed = queries["slow_paths"] | {"state": "failed", "error": "Nothing goes on."}
    behind = queries["slow_paths"]["sources"]["ping"] | {"lanes": {"ping/0": lane(NOON_US), "ping/1": lane(0)}}
    node.told = a_node() | {"queries": {"slow": failed | {"sources": {"ping": behind}}, "fast": queries["slow_paths"]}}
    shown = cli("status", address).stdout
    assert shown.startswith("node a with 2 queries at 127.0.0.1:7700: running, up")
    assert "query slow: failed\n" in shown
    assert "query fast: running\n" in shown
    assert "query slow: Nothing goes on.\n" in shown
    assert "anabranch source close 127.0.0.1:7700 slow/ping 1\n" in shown


def test_json_is_everything(cli: Cli, node: TalkingNode, address: str) -> None:
    node.told = a_node(ping=lane(NOON_US))
    assert json.loads(cli("status", address, "--json").stdout) == to_plain(host_status(node.told))


def test_a_node_that_has_just_begun_has_no_stages(cli: Cli, node: TalkingNode, address: str) -> None:
    node.told = of(a_node(ping=lane(0)), stages={}, streams={}) | {"state": "starting"}
    assert cli("status", address).exit_code == 0


@pytest.mark.parametrize(
    ("ping", "load", "sentence"),
    [
        (lane(NOON_US), lane(NOON_US - SECOND), "No lane holds the others back. The slowest, load/0,"),
        (lane(NOON_US), lane(0), "Windows wait for lane load/0, which has not sent anything yet."),
        (
            lane(NOON_US),
            lane(NOON_US - 65 * SECOND, silent_s=70),
            "1 min 5 s of stream time behind the first, and silent for 1 min 10 s. "
            "If it has nothing more to send: anabranch source close 127.0.0.1:7700 load 0",
        ),
        (lane(NOON_US), lane(CLOSED_US, closed=True), "The slowest, ping/0,"),
        (lane(CLOSED_US, closed=True), lane(CLOSED_US, closed=True), "All lanes are closed"),
    ],
    ids=["together", "never sent", "behind", "closed", "all closed"],
)
def test_the_lane_that_all_wait_for_is_named(ping: dict[str, Any], load: dict[str, Any], sentence: str) -> None:
    assert sentence in slowest_lane(_lanes(host_status(a_node(ping=ping, load=load)), "slow_paths"))


def test_a_node_without_sources_says_nothing_of_lanes(cli: Cli, node: TalkingNode, address: str) -> None:
    node.told = a_node()
    shown = cli("status", address).stdout
    assert "sources" not in shown
    assert "lanes" not in shown


def test_copies_that_cannot_be_compared_are_told(cli: Cli, node: TalkingNode, address: str) -> None:
    copies = {"b": {"compared": {}, "error": "b is away."}, "c": {"compared": {}, "error": None}}
    node.told = of(a_node(ping=lane(NOON_US)), compared={"s": copies})
    shown = cli("status", address).stdout
    assert "s is not compared with the copy on b: b is away." in shown
    assert "copy of c" not in shown


def test_copies_that_differ_are_told_as_an_alarm(cli: Cli, node: TalkingNode, address: str) -> None:
    copies = {"mit": {"rows": 7, "digest": "00"}, "wisc": {"rows": 8, "digest": "01"}}
    latest = {"stream": "s", "origin": "ping/0", "start": "12:00:00", "end": "12:00:10", "copies": copies}
    node.told = of(a_node(ping=lane(NOON_US)), alarms={"s": {"count": 3, "latest": [latest]}})
    (line,) = [line for line in cli("status", address).stdout.splitlines() if line.startswith("ALARM")]
    assert line == (
        "ALARM: copies of s differ in 3 intervals, the latest from 12:00:00 to 12:00:10, tuples of ping/0: "
        "mit (7 rows) and wisc (8 rows)"
    )

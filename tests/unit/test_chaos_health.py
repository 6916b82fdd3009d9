"""When a node of a chaos run counts as back: what it says itself, and what those say that read it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from anabranch.deploy.deployment_status import PlacedQueryStatus, ReadCopyStatus, StreamStatus
from anabranch.deploy.parts import assigned_queries
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import NodeUnreachable
from tests.chaos import health
from tests.chaos.health import LAG_ROWS
from tests.chaos.planetlab import record, write_deployment
from tests.statuses import host_status

Said = dict[str, Any]


def why_not_back(plan: Plan, found: dict[str, Any], node: str, hurt: Collection[str]) -> str | None:
    answers = {name: host_status(said) if isinstance(said, dict) else said for name, said in found.items()}
    return health.why_not_back(plan, answers, node, hurt)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return load_plan(write_deployment(record(1), tmp_path_factory.mktemp("planetlab"), joins=1))


@pytest.fixture
def found(plan: Plan) -> dict[str, Any]:
    """All nodes are well: each holds ten rows of every stream, and has read those of others."""
    return {name: _well(plan, name) for name in plan.nodes}


def _well(plan: Plan, name: str) -> Said:
    (part,) = assigned_queries(plan, name)
    (query,) = plan.queries.values()
    lane = {"punctuation_us": 0, "silent_us": 0, "closed": False}
    made = [*part.entries, *(target.stream for stage in part.stages for target in stage.targets)]
    running = {
        "state": "running",
        "error": None,
        "alarms": {},
        "sources": {
            source: {
                "rows_in": 10,
                "lanes": {
                    origin: {**lane, "shared": {"state": "follows", "held": 10}}
                    for origin in query.entrances[source].lanes
                },
            }
            for source in part.entries
        },
        "stages": {
            stage.name: {"state": "running", "error": None, "rows_out": 10, "inputs": {"x": {"lag_rows": 0}}}
            for stage in part.stages
        },
        "streams": {stream: {"last_id": 10, "bytes": 1, "incarnation": "i"} for stream in made},
        "inlets": {
            stream: {copy: {"state": "read", "position": "i:10", "first": 1, "error": None} for copy in copies}
            for stream, copies in part.upstream.items()
        },
    }
    host = {"state": "running", "intake": "open", "uptime_s": 1.0, "spark": None}
    return {**host, "queries": {query.name: running}}


def of(found: dict[str, Any], name: str) -> Any:
    """What a node says of its only query."""
    (query,) = found[name]["queries"].values()
    return query


def test_nothing_is_missing_where_all_are_well(plan: Plan, found: dict[str, Any]) -> None:
    assert [why_not_back(plan, found, node, ()) for node in plan.nodes] == [None] * 7


def test_a_node_must_answer_and_run(plan: Plan, found: dict[str, Any]) -> None:
    found["wisc"]["state"] = "rebuilding"
    found["mit"] = NodeUnreachable("Nobody there.")
    assert why_not_back(plan, found, "wisc", ()) == "wisc is rebuilding"
    assert why_not_back(plan, found, "mit", ()) == "mit does not answer"


def test_an_entry_point_must_have_learned_what_the_others_hold(plan: Plan, found: dict[str, Any]) -> None:
    lane = of(found, "mit")["sources"]["load_mit"]["lanes"]["load_mit/mit"]["shared"]
    lane["state"] = "learns"
    assert why_not_back(plan, found, "mit", ()) == "mit learns load_mit/mit"
    lane["state"] = "leads"
    assert why_not_back(plan, found, "mit", ()) is None
    other = of(found, "ufl")["sources"]["load_mit"]["lanes"]["load_mit/mit"]["shared"]
    other["held"] = 11 + LAG_ROWS
    assert why_not_back(plan, found, "mit", ()) == f"mit holds 10 entries of load_mit/mit, another {11 + LAG_ROWS}"


def test_a_replica_must_have_caught_up(plan: Plan, found: dict[str, Any]) -> None:
    of(found, "osu")["stages"]["with_load"]["inputs"]["x"]["lag_rows"] = LAG_ROWS + 1
    assert why_not_back(plan, found, "osu", ()) == f"with_load on osu is running, {LAG_ROWS + 1} rows behind"


def test_a_copy_must_be_read_again_unless_its_reader_is_away(plan: Plan, found: dict[str, Any]) -> None:
    of(found, "osu")["inlets"]["box:loads"]["wisc"]["state"] = "away"
    away = "osu does not read the copy of box:loads on wisc"
    assert why_not_back(plan, found, "wisc", ()) == away
    assert why_not_back(plan, found, "osu", ()) == away
    assert why_not_back(plan, found, "purdue", ()) is None
    assert why_not_back(plan, found, "wisc", {"osu"}) is None


def test_a_new_incarnation_that_nobody_has_read_is_not_back(plan: Plan, found: dict[str, Any]) -> None:
    of(found, "wisc")["streams"]["box:loads"]["incarnation"] = "j"
    assert why_not_back(plan, found, "wisc", ()) == "osu does not read the copy of box:loads on wisc"
    of(found, "wisc")["streams"]["box:loads"] = {"last_id": 11 + LAG_ROWS, "bytes": 1, "incarnation": "i"}
    assert why_not_back(plan, found, "wisc", ()) == f"osu is {1 + LAG_ROWS} rows behind the copy of box:loads on wisc"


def test_a_further_replica_of_a_node_that_reads_a_stream_belongs_to_that_node() -> None:
    """It is named with its stage."""
    copy = ReadCopyStatus(state="away", lag_rows=0, first=0, error=None)
    streams = {"s": StreamStatus(copies={}, readers={"counts@b": {"a": copy}})}
    query = PlacedQueryStatus(mode="race", fragments={}, streams=streams, lanes={})
    away = ["counts@b does not read the copy of s on a"]
    assert [list(health._copies(node, query, ())) for node in "abc"] == [away, away, []]
    assert list(health._copies("a", query, {"b"})) == []

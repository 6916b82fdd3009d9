"""A query and what a host runs of it: the names of an assignment, and the stages that they mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.model.assignment import AssignedReplica, AssignedWriter, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram


def diagram() -> Diagram:
    query = ab.Query("paths")
    slow = query.source("ping", "target string, rtt double").filter("rtt > 100", name="slow")
    query.output("slow", slow)
    query.output("counts", slow.aggregate("count(*) AS n", by="target", window="10s", name="counts"))
    return query.checked()


def assignment() -> QueryAssignment:
    """``counts`` alone: what is slow is found elsewhere."""
    return QueryAssignment(
        query=QueryId("paths"),
        host="d",
        cuts=(("slow", 0, "counts"),),
        replicas=(AssignedReplica(stage="counts", inputs={"box:slow": ("b", "c")}, generation=2),),
        writers=(AssignedWriter(output="slow", made_on=("b", "c")), AssignedWriter(output="counts", made_on=("d",))),
        addresses={"b": "h:1", "c": "h:2"},
    )


def test_a_host_cuts_the_query_as_the_others_do() -> None:
    part = AssignedQuery(diagram(), assignment())
    assert [stage.name for stage in part.all_stages] == ["ping", "counts"]
    assert [stage.name for stage in part.stages] == ["counts"]
    assert part.upstream == {stream: {"b": "h:1", "c": "h:2"} for stream in ("box:slow", "slow")}
    assert str(part.replica("counts")) == "paths/counts@d#2"
    assert str(part.stream("slow")) == "paths/slow"
    assert part.streams == {"slow", "counts", "box:slow"}
    assert part.needs_spark


def test_the_whole_query_needs_nobody() -> None:
    part = AssignedQuery.whole(diagram())
    assert part.stages == part.all_stages
    assert (part.entries, part.feeds, part.writes) == ({"ping"}, {"ping"}, {"slow", "counts"})
    assert (part.upstream, part.peers, part.siblings, part.readers) == ({}, {"ping": {}}, {}, {})


def test_an_assignment_of_another_query_or_version_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="does not match its query"):
        AssignedQuery(diagram(), replace(assignment(), query=QueryId("other")))
    with pytest.raises(ConfigError, match="no stage gone"):
        AssignedQuery(diagram(), replace(assignment(), replicas=(AssignedReplica(stage="gone", inputs={}),)))


def test_the_same_query_with_the_same_assignment_is_the_same() -> None:
    assert AssignedQuery(diagram(), assignment()) == AssignedQuery(diagram(), assignment())
    other = replace(assignment(), readers={"counts": ("e",)})
    assert AssignedQuery(diagram(), assignment()) != AssignedQuery(diagram(), other)

"""Every bad parameter of the boxes that work in order, or on sessions and tables, with its message."""

from __future__ import annotations

import pytest

from anabranch.errors import Problem
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query, Stream

PING = "source string, target string, rtt_ms double"


def ping_query() -> tuple[Query, Stream]:
    query = Query("q")
    return query, query.source("ping", PING)


def only_problem(stream: Stream) -> Problem:
    stream.query.output("out", stream)
    (problem,) = stream.query.validate()
    return problem


def told(problem: Problem) -> tuple[str, str, str]:
    return problem.code, problem.message, problem.remedy


def from_yaml(*boxes: str) -> list[Problem]:
    lines = ["query: q", "boxes:", f"  - source: {{name: ping, schema: {PING!r}}}"]
    return Query.from_yaml("\n".join([*lines, *(f"  - {box}" for box in boxes), "outputs: {out: box}"])).validate()


def reads_back(stream: Stream) -> Diagram:
    """The diagram, which is the same after a trip through YAML."""
    stream.query.output("out", stream)
    diagram = stream.query.checked()
    assert Query.from_yaml(stream.query.to_yaml()).checked() == diagram
    return diagram


# --- dedup ---------------------------------------------------------------------------------------------------------


def test_a_dedup_reads_back() -> None:
    _, ping = ping_query()
    reads_back(ping.dedup("Source, target", horizon="10m"))


def test_a_dedup_needs_columns_that_are_there() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.dedup("sorce", horizon="1s"))
    assert told(problem) == (
        "unknown-column",
        "by: there is no column 'sorce'.",
        "Candidates: source, target, rtt_ms.",
    )
    _, ping = ping_query()
    problem = only_problem(ping.dedup("", horizon="1s"))
    assert told(problem) == (
        "missing-key",
        "by: nothing says which tuples are the same.",
        "Candidates: source, target, rtt_ms.",
    )
    _, ping = ping_query()
    problem = only_problem(ping.dedup("source, SOURCE", horizon="1s"))
    assert told(problem) == (
        "duplicate-name",
        "by: the group column 'SOURCE' comes twice.",
        "Rename one of them.",
    )
    _, ping = ping_query()
    assert only_problem(ping.dedup("_tid", horizon="1s")).code == "reserved-column"


@pytest.mark.parametrize(
    ("horizon", "code", "message"),
    [
        ("0s", "bad-window", "horizon: 0us is not a positive number of whole milliseconds."),
        ("1500us", "bad-window", "horizon: 1500us is not a positive number of whole milliseconds."),
        ("100000000d", "bad-window", "horizon: 100000000d is longer than the years 1970 to 9998."),
        ("soon", "bad-duration", "horizon: 'soon' is not a duration."),
    ],
)
def test_a_horizon_is_a_number_of_milliseconds(horizon: str, code: str, message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.dedup("source", horizon=horizon))
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy


def test_a_dedup_in_text_says_what_is_missing_or_of_another_kind() -> None:
    (problem,) = from_yaml("dedup: {name: box, input: ping, by: source}")
    assert told(problem) == ("missing-key", "boxes[1].dedup has no key `horizon`.", "Add `horizon`.")
    (problem,) = from_yaml("dedup: {name: box, input: ping, by: source, horizon: 5}")
    assert problem.message == "boxes[1].dedup.horizon: 5 is a int."
    (problem,) = from_yaml("dedup: {name: box, input: ping, by: source, horizn: 5s}")
    assert problem.message == "boxes[1].dedup has an unknown key `horizn`."

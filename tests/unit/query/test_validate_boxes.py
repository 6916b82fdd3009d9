"""Every bad parameter of the boxes that work in order, or on sessions and tables, with its message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.errors import Problem, QueryError
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query, Stream
from anabranch.query.floats import exact_scales

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


# --- boxes with aggregate functions --------------------------------------------------------------------------------

SUMMING: dict[str, Callable[..., Stream]] = {
    "session": lambda stream, columns, **options: stream.session(columns, gap="1s", **options),
}


@pytest.fixture(params=SUMMING)
def summing(request: pytest.FixtureRequest) -> Callable[..., Stream]:
    return SUMMING[request.param]


@pytest.mark.parametrize(
    ("columns", "by", "code", "message"),
    [
        ("count(*) AS n", "sorce", "unknown-column", "by: there is no column 'sorce'."),
        ("count(*) AS n", "source, Source", "duplicate-name", "by: the group column 'Source' comes twice."),
        ("count(*)", "", "missing-alias", "columns: `count(*)` has no name."),
        ("rtt_ms AS r", "", "bad-aggregate", "`rtt_ms` is not an aggregate."),
        ("max(rtt) AS r", "", "unknown-column", "columns: there is no column 'rtt'."),
        ("first(rtt_ms) AS r", "", "refused-function", "columns: first() in `first(rtt_ms)` depends on the order"),
        ("count(*) AS source", "source", "duplicate-name", "columns: the column 'source' comes twice."),
        ("max(_stime) AS t", "", "reserved-column", "columns: '_stime' is a header column."),
        ("count(*) AS _n", "", "reserved-column", "columns: column '_n' begins with `_`."),
        ("count(", "", "bad-sql", "columns: `count(` cannot be read"),
    ],
)
def test_aggregates_are_those_of_columns_that_are_there(
    summing: Callable[..., Stream], columns: str, by: str, code: str, message: str
) -> None:
    _, ping = ping_query()
    problem = only_problem(summing(ping, columns, by=by))
    assert problem.code == code
    assert problem.message.startswith(message)
    assert problem.remedy


def test_a_scale_is_that_of_an_aggregate(summing: Callable[..., Stream]) -> None:
    _, ping = ping_query()
    problem = only_problem(summing(ping, "sum(rtt_ms) AS r", scale=19))
    assert (problem.code, problem.message) == ("bad-scale", "scale: 19 is not a number of digits from 0 to 18.")
    _, ping = ping_query()
    assert only_problem(summing(ping, "count(*) AS n", scale=3)).code == "meaningless-option"
    _, ping = ping_query()
    with pytest.raises(QueryError, match=r"scale: 1\.5 is a float"):
        summing(ping, "sum(rtt_ms) AS r", scale=1.5)


def test_sums_that_something_decides_by_are_exact(summing: Callable[..., Stream]) -> None:
    query, ping = ping_query()
    query.output("out", summing(ping, "sum(rtt_ms) AS r", name="box").filter("r > 1"))
    assert exact_scales(query.checked()) == {"box": {"r": 9}}


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


# --- session -------------------------------------------------------------------------------------------------------


def test_a_session_reads_back() -> None:
    _, ping = ping_query()
    reads_back(ping.session("count(*) AS n, avg(rtt_ms) AS rtt_ms", by="source", gap="10s", scale=3))
    _, ping = ping_query()
    reads_back(ping.session("count(*) AS n", gap="1ms"))


@pytest.mark.parametrize(
    ("gap", "code", "message"),
    [
        ("0s", "bad-window", "gap: 0us is not a positive number of whole milliseconds."),
        ("1.5ms", "bad-window", "gap: 1500us is not a positive number of whole milliseconds."),
        ("100000000d", "bad-window", "gap: 100000000d is longer than the years 1970 to 9998."),
        ("often", "bad-duration", "gap: 'often' is not a duration."),
    ],
)
def test_a_gap_is_a_number_of_milliseconds(gap: str, code: str, message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.session("count(*) AS n", gap=gap))
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy


def test_a_session_in_text_says_what_is_missing() -> None:
    (problem,) = from_yaml("session: {name: box, input: ping, columns: count(*) AS n}")
    assert told(problem) == ("missing-key", "boxes[1].session has no key `gap`.", "Add `gap`.")

"""Every bad parameter of the boxes that work in order, or on sessions and tables, with its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.errors import Problem, QueryError
from anabranch.query.boxes import Arrow, Diagram
from anabranch.query.builder import Query, Stream
from anabranch.query.catalog import kind
from anabranch.query.floats import exact_scales
from anabranch.query.schemas import schemas

PING = "source string, target string, rtt_ms double"


def ping_query() -> tuple[Query, Stream]:
    query = Query("q")
    return query, query.source("ping", PING)


def only_problem(stream: Stream) -> Problem:
    stream.query.output("out", stream)
    (problem,) = stream.query.validate()
    return problem


def problems_of(stream: Stream) -> list[Problem]:
    stream.query.output("out", stream)
    return stream.query.validate()


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
    "slide": lambda stream, columns, **options: stream.slide(columns, rows=3, **options),
    "xsection": lambda stream, columns, **options: stream.xsection(columns, window="1s", **options),
    "tumble": lambda stream, columns, by="", **options: stream.tumble(columns, by=by or "rtt_ms", **options),
}


@pytest.fixture(params=SUMMING)
def summing(request: pytest.FixtureRequest) -> Callable[..., Stream]:
    return SUMMING[request.param]


@pytest.mark.parametrize(
    ("columns", "by", "code", "message"),
    [
        ("count(*) AS n", "sorce", "unknown-column", "by: there is no column 'sorce'."),
        ("count(*) AS n", "source, Source", "duplicate-name", "by: the column 'Source' appears twice."),
        ("count(*)", "", "missing-alias", "columns: `count(*)` has no name."),
        ("rtt_ms AS r", "", "bad-aggregate", "`rtt_ms` is not an aggregate."),
        ("max(rtt) AS r", "", "unknown-column", "columns: there is no column 'rtt'."),
        ("first(rtt_ms) AS r", "", "refused-function", "columns: first() in `first(rtt_ms)` depends on the order"),
        ("count(*) AS source", "source", "duplicate-name", "columns: the column 'source' appears twice."),
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
        "by: no columns given that identify duplicates.",
        "Candidates: source, target, rtt_ms.",
    )
    _, ping = ping_query()
    problem = only_problem(ping.dedup("source, SOURCE", horizon="1s"))
    assert told(problem) == (
        "duplicate-name",
        "by: the column 'SOURCE' appears twice.",
        "Name it once.",
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
    assert problem.message == "boxes[1].dedup.horizon: 5 is an int."
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


# --- latest --------------------------------------------------------------------------------------------------------


def two_streams() -> tuple[Query, Stream, Stream]:
    query, ping = ping_query()
    return query, ping, query.source("load", "server string, cpu double, cores int")


def test_a_latest_reads_back() -> None:
    _, ping, load = two_streams()
    reads_back(ping.latest(load, on="target = Server AND CPU = rtt_ms", outer=True, within="10s"))
    _, ping, load = two_streams()
    reads_back(ping.latest(load))


@pytest.mark.parametrize(
    ("on", "code", "message"),
    [
        ("target = server AND cpu > 5", "not-an-equality", "is more than equalities between a column of either side."),
        ("upper(target) = server", "not-an-equality", "is more than equalities between a column of either side."),
        ("target = source", "not-an-equality", "is more than equalities between a column of either side."),
        ("target = 'a'", "not-an-equality", "is more than equalities between a column of either side."),
        ("rtt_ms = cores", "not-an-equality", "on: 'rtt_ms' is double and 'cores' is int."),
        ("taget = server", "unknown-column", "on: there is no column 'taget'."),
        ("target +", "bad-sql", "on: `target +` cannot be read"),
        ("rtt_ms + cpu", "not-boolean", "on: `rtt_ms + cpu` is a double."),
        ("rand() = cpu", "refused-function", "on: rand() in `rand() = cpu`"),
    ],
)
def test_the_key_of_a_latest_is_equalities(on: str, code: str, message: str) -> None:
    _, ping, load = two_streams()
    problem = only_problem(ping.latest(load, on=on))
    assert problem.code == code
    assert message in problem.message
    assert problem.remedy


def test_the_sides_of_a_latest_have_columns_of_their_own() -> None:
    query, ping = ping_query()
    problem = only_problem(ping.latest(query.source("other", "Target string")))
    assert told(problem) == (
        "duplicate-name",
        "Both 'ping' and 'other' have 'target'.",
        'Rename the columns of one side: .map("target AS other_target, ...").',
    )


@pytest.mark.parametrize(
    ("within", "code", "message"),
    [
        ("0s", "bad-window", "within: 0us is not a positive number of whole milliseconds."),
        ("never", "bad-duration", "within: 'never' is not a duration."),
    ],
)
def test_a_partner_is_too_old_after_whole_milliseconds(within: str, code: str, message: str) -> None:
    _, ping, load = two_streams()
    problem = only_problem(ping.latest(load, within=within))
    assert (problem.code, problem.message) == (code, message)


def test_outer_is_true_or_false() -> None:
    _, ping, load = two_streams()
    with pytest.raises(QueryError, match="outer: 'left' is a str"):
        ping.latest(load, outer="left")  # type: ignore[arg-type]
    load_text = "source: {name: load, schema: cpu double}"
    (problem,) = from_yaml(load_text, "latest: {name: box, left: ping, right: load, outer: left}")
    assert problem.message == "boxes[2].latest.outer: 'left' is a str."
    problems = from_yaml("latest: {name: box, left: ping, right: laod}")
    assert [problem.message for problem in problems] == ["right: there is no box 'laod'."]


# --- tumble --------------------------------------------------------------------------------------------------------


def test_a_tumble_reads_back() -> None:
    _, ping = ping_query()
    reads_back(ping.tumble("sum(rtt_ms) AS r", by="Source, target", timeout="10s", scale=0))
    _, ping = ping_query()
    reads_back(ping.tumble("count(*) AS n", by=["source"]))


def test_a_tumble_says_by_which_change_a_run_ends() -> None:
    _, ping = ping_query()
    assert told(only_problem(ping.tumble("count(*) AS n", by=""))) == (
        "missing-key",
        "by: no columns given whose change ends a run.",
        "Candidates: source, target, rtt_ms.",
    )
    (problem,) = from_yaml("tumble: {name: box, input: ping, columns: count(*) AS n}")
    assert told(problem) == ("missing-key", "boxes[1].tumble has no key `by`.", "Add `by`.")


@pytest.mark.parametrize(
    ("timeout", "code", "message"),
    [
        ("0s", "bad-window", "timeout: 0us is not a positive number of whole milliseconds."),
        ("1us", "bad-window", "timeout: 1us is not a positive number of whole milliseconds."),
        ("late", "bad-duration", "timeout: 'late' is not a duration."),
    ],
)
def test_the_timeout_of_a_tumble_is_a_number_of_milliseconds(timeout: str, code: str, message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.tumble("count(*) AS n", by="source", timeout=timeout))
    assert (problem.code, problem.message) == (code, message)


# --- results before the end ----------------------------------------------------------------------------------------

EARLY: dict[str, Callable[..., Stream]] = {
    "aggregate over time": lambda stream, **options: stream.aggregate("count(*) AS n", window="1h", **options),
    "aggregate over tuples": lambda stream, **options: stream.aggregate("count(*) AS n", rows=2_002, **options),
    "session": lambda stream, **options: stream.session("count(*) AS n", gap="1s", **options),
    "tumble": lambda stream, **options: stream.tumble("count(*) AS n", by="source", **options),
}


@pytest.mark.parametrize("make", EARLY.values(), ids=EARLY)
def test_results_before_the_end(make: Callable[..., Stream]) -> None:
    diagram = reads_back(make(ping_query()[1], emit_rows=3, name="early"))
    assert kind(diagram.box("early")).waits_us(diagram.box("early")) == 0
    assert "also after every 3 rows" in list(kind(diagram.box("early")).lines(diagram.box("early")))
    assert kind(diagram.box("early")).kept(diagram.box("early")).startswith("the tuples of")


@pytest.mark.parametrize("make", EARLY.values(), ids=EARLY)
def test_a_number_of_tuples_before_the_end_is_one(make: Callable[..., Stream]) -> None:
    problem = only_problem(make(ping_query()[1], emit_rows=0))
    assert told(problem) == ("bad-window", "emit_rows: 0 is not a number of tuples.", "Write 1 or more.")
    with pytest.raises(QueryError, match="emit_rows: '1' is a str"):
        make(ping_query()[1], emit_rows="1")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"window": "2s", "every": "1s", "emit_rows": 2}, "meaningless-option", "emit_rows: windows overlap, so"),
        ({"rows": 4, "every_rows": 2, "emit_rows": 2}, "meaningless-option", "emit_rows: windows overlap, so"),
        ({"rows": 4, "emit_rows": 4}, "meaningless-option", "emit_rows: a window is full after 4 tuples, so no"),
        (
            {"rows": 2_002, "emit_rows": 2},
            "bad-window",
            "emit_rows: a tuple would lie in 1,001 windows; the limit is 1,000.",
        ),
    ],
)
def test_results_before_the_end_that_make_no_sense(options: dict[str, Any], code: str, message: str) -> None:
    problem = only_problem(ping_query()[1].aggregate("count(*) AS n", **options))
    assert problem.code == code
    assert problem.message.startswith(message)
    assert problem.remedy


# --- slide ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 5},
        {"rows": 5, "every_rows": 2},
        {"rows": 5, "every": "1s"},
        {"window": "1s", "every_rows": 3},
        {"window": "2s", "every": "1s"},
    ],
)
def test_a_slide_reads_back(options: dict[str, Any]) -> None:
    _, ping = ping_query()
    reads_back(ping.slide("sum(rtt_ms) AS r", by="source", scale=2, **options))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({}, "bad-window", "No window given to compute results over."),
        ({"rows": 0}, "bad-window", "rows: 0 is not a number of tuples from 1 to 1,000,000."),
        ({"rows": 1_000_001}, "bad-window", "rows: 1,000,001 is not a number of tuples from 1 to 1,000,000."),
        ({"rows": 5, "window": "1s"}, "meaningless-option", "window: results are over the last `rows` here."),
        ({"window": "0s"}, "bad-window", "window: 0us is not a positive number of whole milliseconds."),
        ({"window": "1us"}, "bad-window", "window: 1us is not a positive number of whole milliseconds."),
        ({"window": "long"}, "bad-duration", "window: 'long' is not a duration."),
        ({"rows": 5, "every": "1us"}, "bad-window", "every: 1us is not a positive number of whole milliseconds."),
        ({"rows": 5, "every": "now"}, "bad-duration", "every: 'now' is not a duration."),
        ({"rows": 5, "every_rows": 0}, "bad-window", "every_rows: 0 is not a number of tuples."),
        (
            {"rows": 5, "every": "1s", "every_rows": 2},
            "meaningless-option",
            "every_rows: results come by `every` here.",
        ),
        ({"window": "1s", "every": "2s"}, "bad-window", "every: 2s is longer than the window of 1s."),
        ({"window": "5s", "every": "1us"}, "bad-window", "every: 1us is not a positive number of whole milliseconds."),
        (
            {"window": "1001ms", "every": "1ms"},
            "bad-window",
            "every: a tuple would lie in 1,001 windows; the limit is 1,000.",
        ),
        (
            {"rows": 2_002, "every_rows": 2},
            "bad-window",
            "every_rows: a tuple would lie in 1,001 windows; the limit is 1,000.",
        ),
    ],
)
def test_a_slide_is_over_the_last_of_something(options: dict[str, Any], code: str, message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.slide("count(*) AS n", **options))
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy


def test_a_slide_in_text_says_what_is_missing() -> None:
    (problem,) = from_yaml("slide: {name: box, input: ping, columns: count(*) AS n}")
    assert told(problem) == ("missing-key", "boxes[1].slide has no key `rows`.", "Add `rows` or `window`.")
    with pytest.raises(QueryError, match="every_rows: '2' is a str"):
        ping_query()[1].slide("count(*) AS n", rows=2, every_rows="2")  # type: ignore[arg-type]


# --- xsection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"every": "1s"}, {"every": "20s", "expire": "1m"}])
def test_an_xsection_reads_back(options: dict[str, str]) -> None:
    _, ping = ping_query()
    reads_back(ping.xsection("sum(rtt_ms) AS r", by="source", window="10s", scale=2, **options))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"window": "0s"}, "bad-window", "window: 0us is not a positive number of whole milliseconds."),
        ({"window": "wide"}, "bad-duration", "window: 'wide' is not a duration."),
        ({"every": "1us"}, "bad-window", "every: 1us is not a positive number of whole milliseconds."),
        ({"every": "never"}, "bad-duration", "every: 'never' is not a duration."),
        ({"expire": "10001us"}, "bad-window", "expire: 10001us is not a positive number of whole milliseconds."),
        ({"expire": "soon"}, "bad-duration", "expire: 'soon' is not a duration."),
        ({"expire": "9s"}, "bad-window", "expire: 9s is shorter than the window of 10s."),
        ({"every": "9ms"}, "bad-window", "every: a tuple would lie in 1,112 windows; the limit is 1,000."),
    ],
)
def test_an_xsection_has_durations_that_go_together(options: dict[str, str], code: str, message: str) -> None:
    _, ping = ping_query()
    problems = problems_of(ping.xsection("count(*) AS n", **{"window": "10s", **options}))
    assert (problems[0].code, problems[0].message) == (code, message)
    assert problems[0].remedy
    assert len({problem.message.split(":")[0] for problem in problems}) == 1, "one parameter is wrong"


def test_an_xsection_in_text_says_what_is_missing() -> None:
    (problem,) = from_yaml("xsection: {name: box, input: ping, columns: count(*) AS n}")
    assert told(problem) == ("missing-key", "boxes[1].xsection has no key `window`.", "Add `window`.")


# --- resample ------------------------------------------------------------------------------------------------------


def test_a_resample_reads_back() -> None:
    _, ping, load = two_streams()
    reads_back(ping.resample(load, "CPU, cores", how="mean", within="10s", on="target = server"))
    _, ping, load = two_streams()
    diagram = reads_back(ping.resample(load, ["cores"], how="previous", within="1ms", name="box"))
    assert [(column.name, column.type) for column in schemas(diagram)[Arrow("box")]][-1] == ("cores", "double")


@pytest.mark.parametrize(
    ("columns", "options", "code", "message"),
    [
        ("cpu", {"how": "lineer"}, "bad-resample", "how: there is no 'lineer'."),
        ("server", {}, "bad-resample", "columns: 'server' is a string, which has no values in between."),
        ("", {}, "missing-key", "columns: no columns given to resample."),
        ("cpu, CPU", {}, "duplicate-name", "columns: the column 'CPU' appears twice."),
        ("cup", {}, "unknown-column", "columns: there is no column 'cup'."),
        ("_stime", {}, "reserved-column", "columns: '_stime' is a header column."),
        ("cpu", {"within": "0s"}, "bad-window", "within: 0us is not a positive number of whole milliseconds."),
        ("cpu", {"within": "near"}, "bad-duration", "within: 'near' is not a duration."),
        ("cpu", {"on": "target > server"}, "not-an-equality", "on: `target > server` is more than equalities between"),
        ("cpu", {"on": "rtt_ms = cores"}, "not-an-equality", "on: 'rtt_ms' is double and 'cores' is int."),
    ],
)
def test_a_resample_makes_numbers_of_numbers(columns: str, options: dict[str, str], code: str, message: str) -> None:
    _, ping, load = two_streams()
    problem = only_problem(ping.resample(load, columns, **{"how": "linear", "within": "1s", **options}))
    assert problem.code == code
    assert problem.message.startswith(message)
    assert problem.remedy


def test_what_is_resampled_has_a_name_of_its_own() -> None:
    query, ping = ping_query()
    other = query.source("other", "RTT_ms double, target string")
    assert told(only_problem(ping.resample(other, "rtt_ms", how="mean", within="1s"))) == (
        "duplicate-name",
        "Both 'ping' and 'other' have 'rtt_ms'.",
        'Rename the columns of one side: .map("rtt_ms AS other_rtt_ms, ...").',
    )


def test_a_resample_in_text_says_what_is_missing() -> None:
    load = "source: {name: load, schema: cpu double}"
    (problem,) = from_yaml(load, "resample: {name: box, left: ping, right: load, columns: cpu, within: 1s}")
    assert told(problem) == ("missing-key", "boxes[2].resample has no key `how`.", "Add `how`.")


# --- wsort ---------------------------------------------------------------------------------------------------------


def test_a_wsort_reads_back_with_both_its_streams() -> None:
    query, ping = ping_query()
    in_order, late = ping.wsort("Target, rtt_ms", timeout="10s", name="box")
    query.output("late", late)
    reads_back(in_order)
    (problem,) = from_yaml(
        "wsort: {name: box, input: ping, by: target, timeout: 1s}", "map: {name: m, input: box.2, columns: '*'}"
    )
    assert told(problem) == ("unknown-arrow", "input: 'box' has no port 2.", "Candidates: box.1, box.")


@pytest.mark.parametrize(
    ("by", "timeout", "code", "message"),
    [
        ("", "1s", "missing-key", "by: no columns given to sort by."),
        ("rtt", "1s", "unknown-column", "by: there is no column 'rtt'."),
        ("target, target", "1s", "duplicate-name", "by: the column 'target' appears twice."),
        ("_stime", "1s", "reserved-column", "by: '_stime' is a header column."),
        ("target", "0s", "bad-window", "timeout: 0us is not a positive number of whole milliseconds."),
        ("target", "1us", "bad-window", "timeout: 1us is not a positive number of whole milliseconds."),
        ("target", "while", "bad-duration", "timeout: 'while' is not a duration."),
    ],
)
def test_a_wsort_sorts_by_columns_and_waits_for_a_while(by: str, timeout: str, code: str, message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.wsort(by, timeout=timeout)[0])
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy


def test_a_wsort_in_text_says_what_is_missing() -> None:
    (problem,) = from_yaml("wsort: {name: box, input: ping, by: target}")
    assert told(problem) == ("missing-key", "boxes[1].wsort has no key `timeout`.", "Add `timeout`.")


# --- the timeout of an aggregate -----------------------------------------------------------------------------------


def test_an_aggregate_with_a_timeout_reads_back() -> None:
    _, ping = ping_query()
    reads_back(ping.aggregate("count(*) AS n", by="source", rows=5, timeout="10s"))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"rows": 5, "timeout": "0s"}, "bad-window", "timeout: 0us is not a positive number of whole milliseconds."),
        ({"rows": 5, "timeout": "slow"}, "bad-duration", "timeout: 'slow' is not a duration."),
        (
            {"window": "5s", "timeout": "1s"},
            "meaningless-option",
            "timeout: a window of time is over at its end.",
        ),
        (
            {"rows": 5, "every_rows": 2, "timeout": "1s"},
            "meaningless-option",
            "timeout: windows overlap, and begin with every `every_rows`-th tuple whatever else is over.",
        ),
    ],
)
def test_a_timeout_is_for_windows_of_tuples_that_do_not_overlap(
    options: dict[str, Any], code: str, message: str
) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", **options))
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy

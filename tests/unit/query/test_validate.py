"""Each mistake a user can make has a code, names its place and says what would be right there."""

from __future__ import annotations

import pytest

from anabranch.errors import Problem, QueryError
from anabranch.limits import ORIGINS, WINDOW_ROWS
from anabranch.query.boxes import Aggregate, Arrow, Box, Column, Diagram, Drop, Filter, Join, Map, Output, Source, Union
from anabranch.query.builder import Query, Stream
from anabranch.query.validate import validate

PING = "source string, target string, rtt_ms double"


def ping_query() -> tuple[Query, Stream]:
    query = Query("q")
    return query, query.source("ping", PING)


def problems_of(stream: Stream) -> list[Problem]:
    stream.query.output("out", stream)
    return stream.query.validate()


def only_problem(stream: Stream, code: str) -> Problem:
    problems = problems_of(stream)
    assert [problem.code for problem in problems] == [code], problems
    return problems[0]


def only_source_problem(code: str, schema: str, **options: object) -> Problem:
    return only_problem(Query("q").source("s", schema, **options), code)  # type: ignore[arg-type]


def source(name: str = "s", columns: str = "a") -> Source:
    return Source(name=name, schema=tuple(Column(column, "int") for column in columns.split()))


def diagram(*boxes: Box, **outputs: Arrow) -> Diagram:
    return Diagram(
        name="q", boxes=boxes, outputs=tuple(Output(name=name, input=arrow) for name, arrow in outputs.items())
    )


def codes(of: Diagram) -> list[str]:
    return [problem.code for problem in validate(of)]


# --- columns -------------------------------------------------------------------------------------------------------


def test_an_unknown_column_is_told_with_the_closest_candidate_first() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.filter("rtt > 1000", name="slow"), "unknown-column")
    assert problem.box == "slow"
    assert "'rtt'" in problem.message
    assert problem.remedy == "Candidates: rtt_ms, source, target."


def test_columns_are_found_in_any_case_and_keep_the_spelling_of_the_schema() -> None:
    _, ping = ping_query()
    assert (
        problems_of(ping.filter("RTT_MS > 1000").map("Target, rtt_MS").aggregate("max(RTT_ms) AS m", window="1s")) == []
    )


def test_an_unknown_group_column_is_told() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", by="taget", window="1s"), "unknown-column")
    assert problem.message == "by: there is no column 'taget'."
    assert problem.remedy.startswith("Candidates: target")


def test_a_prefixed_column_is_told_to_drop_the_prefix() -> None:
    _, ping = ping_query()
    assert "without a prefix" in only_problem(ping.filter("p.rtt_ms > 1"), "unknown-column").remedy


def test_one_mistake_is_one_problem_however_many_boxes_come_after_it() -> None:
    _, ping = ping_query()
    broken = ping.map("taget AS t, rtt_ms", name="broken")
    behind = broken.filter("t = 'a'").map("t, rtt_ms * 2 AS x").aggregate("sum(x) AS x", by="t", window="1s")
    assert only_problem(behind.union(behind.filter("x > 0")), "unknown-column").box == "broken"


def test_mistakes_of_several_boxes_come_together_in_the_order_of_the_boxes() -> None:
    query, ping = ping_query()
    one = ping.filter("nope > 1", name="b")
    two = ping.aggregate("first(rtt_ms) AS r", by="nope", window="soon", name="a")
    query.output("o1", one)
    query.output("o2", two)
    found = [(problem.box, problem.code) for problem in query.validate()]
    assert sorted(found) == [
        ("a", "bad-duration"),
        ("a", "refused-function"),
        ("a", "unknown-column"),
        ("b", "unknown-column"),
    ]
    with pytest.raises(QueryError) as caught:
        query.checked()
    assert caught.value.problems == tuple(query.validate())
    assert "4 problems" in str(caught.value)


@pytest.mark.parametrize("name", ["_kind", "_id", "_tid", "_origin"])
def test_header_columns_cannot_be_read(name: str) -> None:
    _, ping = ping_query()
    only_problem(ping.filter(f"{name} = 1"), "reserved-column")


def test_stream_time_can_be_read_by_filter_and_map_and_by_no_other_box() -> None:
    _, ping = ping_query()
    at = ping.filter("_stime > timestamp '2020-01-01'").map("_stime AS at, target")
    assert problems_of(at) == []
    _, ping = ping_query()
    only_problem(ping.aggregate("max(_stime) AS t", window="1s"), "reserved-column")


def test_columns_that_begin_with_an_underscore_are_reserved() -> None:
    only_source_problem("reserved-column", "a int, _b int")
    _, ping = ping_query()
    only_problem(ping.map("rtt_ms AS _rtt"), "reserved-column")
    _, ping = ping_query()
    only_problem(ping.map("_stime"), "reserved-column")


def test_a_computed_column_needs_a_name() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.map("rtt_ms / 1000"), "missing-alias")
    assert problem.remedy == "Write `rtt_ms / 1000 AS name`."
    _, ping = ping_query()
    assert only_problem(ping.aggregate("count(*)", window="1s"), "missing-alias").remedy == "Write `count(*) AS name`."


@pytest.mark.parametrize("columns", ["target, rtt_ms AS Target", "*, 1 AS target", "source AS a, target AS a", "*, *"])
def test_columns_of_a_map_that_come_twice(columns: str) -> None:
    _, ping = ping_query()
    assert {problem.code for problem in problems_of(ping.map(columns))} == {"duplicate-name"}


def test_an_aggregate_may_not_be_called_like_its_group() -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate("count(*) AS TARGET", by="target", window="1s"), "duplicate-name")


def test_columns_need_plain_names() -> None:
    only_source_problem("bad-name", "`a b` int")
    _, ping = ping_query()
    only_problem(ping.map("rtt_ms AS `r.t`"), "bad-name")


# --- types ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "remedy"),
    [
        ("strin", "Candidates: string"),
        ("varchar(10)", "Use string."),
        ("timestamp_ntz", "Use timestamp."),
        ("array<int>", ""),
        ("struct<x:int,y:int>", ""),
        ("decimal(39,2)", "Candidates: decimal"),
        ("interval day", ""),
        ("", "Types are boolean"),
    ],
)
def test_types_that_streams_do_not_have(type_: str, remedy: str) -> None:
    problem = only_source_problem("unsupported-type", f"a {type_}, b int")
    assert "'a'" in problem.message
    assert remedy in problem.remedy


def test_a_source_needs_columns() -> None:
    only_source_problem("unsupported-type", "")


def test_a_map_cannot_make_what_a_stream_cannot_carry() -> None:
    _, ping = ping_query()
    assert "'parts'" in only_problem(ping.map("split(target, '.') AS parts"), "unsupported-type").message
    _, ping = ping_query()
    only_problem(ping.map("CAST(target AS timestamp_ntz) AS t"), "unsupported-type")


def test_a_part_of_an_array_is_fine() -> None:
    _, ping = ping_query()
    assert problems_of(ping.map("split(target, '[.]')[0] AS site")) == []


def test_collations_are_refused_in_schemas_and_expressions() -> None:
    only_source_problem("collation", "a string collate utf8_lcase")
    for sql in ("target COLLATE utf8_lcase = 'a'", "collate(target, 'unicode') = 'a'"):
        _, ping = ping_query()
        only_problem(ping.filter(sql), "collation")
    _, ping = ping_query()
    only_problem(ping.map("CAST(target AS string COLLATE unicode) AS t"), "collation")


@pytest.mark.parametrize("predicate", ["rtt_ms + 1", "target", "'true'", "1", "upper(target)"])
def test_a_predicate_must_be_a_condition(predicate: str) -> None:
    _, ping = ping_query()
    only_problem(ping.filter(predicate), "not-boolean")


def test_a_join_condition_must_be_one_too() -> None:
    query, ping = ping_query()
    only_problem(ping.join(query.source("load", "cpu double"), on="cpu + rtt_ms", within="1s"), "not-boolean")


def test_what_only_spark_can_type_is_left_to_spark() -> None:
    _, ping = ping_query()
    assert problems_of(ping.filter("some_udf(target)").map("levenshtein(source, target) AS d")) == []


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("source, target", "3 columns meet 2"),
        ("target, source, rtt_ms", "column 'source' meets 'target'"),
        ("source, target, CAST(rtt_ms AS float) AS rtt_ms", "column 'rtt_ms' is double and float"),
    ],
)
def test_inputs_of_a_union_must_have_the_same_columns(columns: str, difference: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.union(ping.map(columns), name="both"), "union-type-clash")
    assert problem.box == "both"
    assert difference in problem.message


def test_a_union_trusts_a_type_that_only_spark_can_tell() -> None:
    _, ping = ping_query()
    assert problems_of(ping.union(ping.map("source, target, some_udf(rtt_ms) AS RTT_ms"))) == []


def test_a_union_needs_inputs() -> None:
    assert codes(diagram(Union(name="u", inputs=()), out=Arrow("u"))) == ["no-input"]


# --- functions and SQL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "function"),
    [
        ("rand() > 0.5", "rand()"),
        ("RAND(5) > 0.5", "rand()"),
        ("randn() > 0", "randn()"),
        ("random() > 0", "random()"),
        ("uuid() = target", "uuid()"),
        ("aes_encrypt(target, source) IS NULL", "aes_encrypt()"),
        ("_stime < now()", "now()"),
        ("_stime < current_timestamp()", "current_timestamp()"),
        ("_stime < current_timestamp", "current_timestamp()"),
        ("_stime < current_date", "current_date()"),
        ("_stime < date_sub(curdate(), 1)", "curdate()"),
        ("_stime < localtimestamp()", "localtimestamp()"),
        ("unix_timestamp() > 5", "unix_timestamp()"),
        ("monotonically_increasing_id() > 5", "monotonically_increasing_id()"),
        ("spark_partition_id() = 0", "spark_partition_id()"),
        ("input_file_name() = ''", "input_file_name()"),
        ("shuffle(array(1, 2))[0] = 1", "shuffle()"),
        ("current_user() = target", "current_user()"),
        ("user() = target", "user()"),
        ("`rand`() > 0.5", "rand()"),
        ("reflect('java.util.UUID', 'randomUUID') = target", "reflect()"),
        ("_stime < timestamp 'now'", "'now'"),
        ("_stime < date 'Today UTC'", "'Today UTC'"),
        ("sum(rtt_ms) > 5", "sum()"),
        ("max_by(target, rtt_ms) = 'a'", "max_by()"),
        ("row_number() OVER (ORDER BY rtt_ms) = 1", "row_number()"),
        ("sum(rtt_ms) OVER () > 1", "OVER"),
        ("rtt_ms > (SELECT 5)", "A subquery"),
        ("target IN (SELECT 'a')", "A subquery"),
        ("EXISTS (SELECT 1)", "A subquery"),
        ("explode(array(1)) = 1", "explode()"),
    ],
)
def test_functions_that_a_filter_may_not_use(sql: str, function: str) -> None:
    _, ping = ping_query()
    problems = problems_of(ping.filter(sql))
    assert {problem.code for problem in problems} == {"refused-function"}
    assert any(function in problem.message for problem in problems)


@pytest.mark.parametrize(
    "sql",
    [
        "unix_timestamp(target) > 5",
        "target LIKE ANY ('a%', 'b%')",
        "exists(split(target, '.'), x -> x = source)",
        "extract(hour FROM _stime) = 5",
        "timestampdiff(SECOND, _stime, timestamp '2020-01-01') > 5",
        "_stime > timestamp '2020-01-01' - interval 5 minutes",
        "CASE WHEN rtt_ms > 5 THEN true ELSE false END",
        "target BETWEEN 'a' AND 'b' AND rtt_ms > 1",
        "target = 'rand()' -- now()",
        "date_trunc('hour', _stime) = _stime",
    ],
)
def test_functions_that_a_filter_may_use(sql: str) -> None:
    _, ping = ping_query()
    assert problems_of(ping.filter(sql)) == []


@pytest.mark.parametrize(
    "function",
    """first last any_value collect_list collect_set array_agg mode percentile_approx approx_percentile
    approx_count_distinct median percentile first_value last_value listagg try_sum regr_count""".split(),
)
def test_aggregates_that_are_not_on_the_list(function: str) -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate(f"{function}(rtt_ms) AS x", window="1s"), "refused-function")


@pytest.mark.parametrize("function", ["max_by", "min_by"])
def test_aggregates_of_two_columns_that_are_not_on_the_list(function: str) -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate(f"{function}(target, rtt_ms) AS x", window="1s"), "refused-function")


@pytest.mark.parametrize(
    "columns",
    [
        "count(*) AS n, count(target) AS m, count_if(rtt_ms > 1) AS k",
        "sum(rtt_ms) AS a, avg(rtt_ms) AS b, mean(rtt_ms) AS c, min(target) AS d, max(rtt_ms) AS e",
        "stddev(rtt_ms) AS a, stddev_pop(rtt_ms) AS b, stddev_samp(rtt_ms) AS c, std(rtt_ms) AS d",
        "variance(rtt_ms) AS a, var_pop(rtt_ms) AS b, var_samp(rtt_ms) AS c",
        "bool_and(rtt_ms > 1) AS a, every(rtt_ms > 1) AS b, bool_or(rtt_ms > 1) AS c, some(rtt_ms > 1) AS d",
        "any(rtt_ms > 1) AS a, bit_and(1) AS b, bit_or(1) AS c, bit_xor(1) AS d",
        "covar_pop(rtt_ms, 1) AS a, covar_samp(rtt_ms, 1) AS b, corr(rtt_ms, rtt_ms) AS c",
        "skewness(rtt_ms) AS a, kurtosis(rtt_ms) AS b",
        "sum(rtt_ms) / count(*) AS a, sum(rtt_ms) FILTER (WHERE target = 'a') AS b, round(avg(rtt_ms), 2) AS c",
        "sum(CASE WHEN target LIKE ANY ('a') THEN rtt_ms END) AS a",
    ],
)
def test_aggregates_that_are_on_the_list(columns: str) -> None:
    _, ping = ping_query()
    assert problems_of(ping.aggregate(columns, by="source", window="1s")) == []


@pytest.mark.parametrize("columns", ["count(DISTINCT target) AS n", "sum(count(*)) AS n", "sum(max(rtt_ms)) AS n"])
def test_aggregates_in_a_form_that_a_stream_cannot_have(columns: str) -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate(columns, window="1s"), "refused-function")


@pytest.mark.parametrize(
    "columns", ["rtt_ms AS r", "1 AS one", "sum(rtt_ms) + rtt_ms AS r", "unknown_agg(rtt_ms) AS r"]
)
def test_an_aggregate_column_is_made_of_aggregates(columns: str) -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate(columns, window="1s"), "bad-aggregate")


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "rtt_ms >",
        "rtt_ms > 1 AS x",
        "rtt_ms > 1, target = 'a'",
        "(rtt_ms > 1",
        "rtt_ms > 1; DROP TABLE x",
        "rtt_ms > 1 FROM t",
        "true WHERE rtt_ms > 1",
        "'open",
        "*",
        "rtt_ms > ?",
        "rtt_ms > :x",
        "true UNION SELECT true",
    ],
)
def test_a_predicate_that_cannot_be_read(sql: str) -> None:
    _, ping = ping_query()
    only_problem(ping.filter(sql, name="f"), "bad-sql")


@pytest.mark.parametrize("columns", ["", "rtt_ms,", "rtt_ms,,target", "DISTINCT target", "p.*", "target AS (a, b)"])
def test_a_select_list_that_cannot_be_read(columns: str) -> None:
    _, ping = ping_query()
    only_problem(ping.map(columns), "bad-sql")


def test_a_filter_needs_a_predicate() -> None:
    empty = Filter(name="f", input=Arrow("s"), predicates=(), otherwise=True)
    assert codes(diagram(source(), empty, out=Arrow("f"))) == ["bad-sql"]


# --- times ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["soon", "10", "-5s", "", "10 parsecs"])
def test_a_duration_that_is_none(window: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", window=window, name="a"), "bad-duration")
    assert problem.box == "a"
    assert repr(window) in problem.message


def test_all_bad_durations_of_a_box_are_told() -> None:
    query = Query("q")
    query.output("o", query.source("s", "t timestamp", time="t", disorder="x", idle="y", silence="z"))
    assert [problem.code for problem in query.validate()] == ["bad-duration"] * 3


@pytest.mark.parametrize("window", ["0s", "999us", "1500us", "0.5ms"])
def test_windows_are_whole_milliseconds(window: str) -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate("count(*) AS n", window=window), "bad-window")
    _, ping = ping_query()
    only_problem(ping.aggregate("count(*) AS n", window="1s", every=window), "bad-window")
    query, ping = ping_query()
    only_problem(ping.join(query.source("l", "x int"), on="x > rtt_ms", within=window), "bad-window")


def test_a_window_is_shorter_than_all_time_there_is() -> None:
    _, ping = ping_query()
    only_problem(ping.aggregate("count(*) AS n", window="100000000d"), "bad-window")


def test_a_tuple_may_not_lie_in_more_windows_than_spark_can_plan() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", window="1h", every="1ms"), "bad-window")
    assert "3,600,000 windows" in problem.message
    query, ping = ping_query()
    query.output("o", ping.aggregate("count(*) AS n", window="1s", every="1ms"))
    assert query.validate() == []


def test_windows_may_not_leave_gaps() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", window="1s", every="2s"), "bad-window")
    assert "2s is longer than the window of 1s" in problem.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows: 0 is not a number of tuples."),
        ({"rows": 10, "every_rows": -1}, "every_rows: -1 is not a number of tuples."),
        ({"rows": 10, "every_rows": 11}, "every_rows: 11 is more than the 10 of the window."),
        ({"rows": 5_000, "every_rows": 4}, "every_rows: a tuple would lie in 1,250 windows; the limit is 1,000."),
        ({"rows": WINDOW_ROWS + 1}, "rows: a window of 1,000,001 tuples is too large; the limit is 1,000,000."),
    ],
)
def test_windows_of_tuples_have_limits(options: dict[str, int], message: str) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n", **options), "bad-window")  # type: ignore[call-overload]
    assert problem.message == message
    assert problem.remedy


def test_windows_of_tuples_may_be_as_large_and_overlap_as_much_as_the_limits_say() -> None:
    query, ping = ping_query()
    query.output("o", ping.aggregate("count(*) AS n", rows=WINDOW_ROWS))
    query.output("p", ping.aggregate("count(*) AS n", rows=1_000, every_rows=1))
    assert query.validate() == []


def test_an_aggregate_has_windows_of_one_kind() -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("count(*) AS n"), "bad-window")  # type: ignore[call-overload]
    assert problem.remedy == "Give `window`, a duration, or `rows`, a number of tuples."
    for options in ({"window": "1s", "rows": 5}, {"window": "1s", "every_rows": 5}, {"rows": 5, "every": "1s"}):
        _, ping = ping_query()
        only_problem(ping.aggregate("count(*) AS n", **options), "meaningless-option")  # type: ignore[call-overload]


@pytest.mark.parametrize("scale", [-1, 19])
def test_exact_sums_have_a_limited_number_of_digits(scale: int) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.aggregate("sum(rtt_ms) AS v", window="1s", scale=scale), "bad-scale")
    assert problem.message == f"scale: {scale} is not a number of digits from 0 to 18."
    for fine in (0, 18):
        _, ping = ping_query()
        assert problems_of(ping.aggregate("1 + avg(rtt_ms) AS v", window="1s", scale=fine)) == []


def test_a_scale_without_sums_means_nothing() -> None:
    _, ping = ping_query()
    columns = "max(rtt_ms) AS v, stddev(rtt_ms) AS w"
    problem = only_problem(ping.aggregate(columns, rows=5, scale=3), "meaningless-option")
    assert problem.message == "scale: there is no sum and no average that could have so many digits."


def test_a_scale_is_a_whole_number() -> None:
    _, ping = ping_query()
    with pytest.raises(QueryError, match=r"scale: 1\.5 is a float"):
        ping.aggregate("sum(rtt_ms) AS v", rows=5, scale=1.5)  # type: ignore[call-overload]
    text = "query: q\nboxes:\n  - source: {name: s, schema: v double}\n"
    text += "  - aggregate: {name: a, input: s, columns: sum(v) AS v, rows: 5, scale: many}\noutputs: {o: a}\n"
    (problem,) = Query.from_yaml(text).validate()
    assert (problem.code, problem.box) == ("wrong-type", "a")
    assert "scale: 'many' is a str." in problem.message


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, float("nan")])
def test_a_fraction_lies_between_none_and_all(fraction: float) -> None:
    _, ping = ping_query()
    problem = only_problem(ping.drop(fraction), "bad-drop")
    assert problem.message == f"fraction: {fraction:g} is not between 0 and 1."


def test_a_drop_says_what_to_drop_and_says_it_once() -> None:
    box = Drop(name="d", input=Arrow("s"))
    assert codes(diagram(source(), box, out=Arrow("d"))) == ["bad-drop"]
    box = Drop(name="d", input=Arrow("s"), fraction=0.1, predicate="a = 1")
    assert codes(diagram(source(), box, out=Arrow("d"))) == ["meaningless-option"]
    _, ping = ping_query()
    only_problem(ping.drop("rtt_ms > 1", seed=3), "meaningless-option")
    _, ping = ping_query()
    only_problem(ping.drop(0.5, seed=1 << 63), "bad-drop")


def test_the_predicate_of_a_drop_is_a_condition_over_its_input() -> None:
    _, ping = ping_query()
    assert "rtt_ms" in only_problem(ping.drop("rtt > 1"), "unknown-column").remedy
    _, ping = ping_query()
    only_problem(ping.drop("rtt_ms + 1"), "not-boolean")
    _, ping = ping_query()
    only_problem(ping.drop("rand() > 0.5"), "refused-function")
    query, ping = ping_query()
    query.output("o", ping.drop("_stime < TIMESTAMP '2026-01-01'"))
    assert query.validate() == []


def test_a_diagram_made_by_hand_is_checked_for_negative_durations() -> None:
    box = Aggregate(name="a", input=Arrow("s"), columns="count(*) AS n", by=(), window_us=-5, every_us=-5)
    assert codes(diagram(source(), box, out=Arrow("a"))) == ["bad-duration"]


def test_the_time_column_must_be_a_timestamp_of_the_source() -> None:
    assert "at" in only_source_problem("unknown-column", "at timestamp, a int", time="ta").remedy
    problem = only_source_problem("bad-time-column", "at timestamp, a int", time="a")
    assert problem.message == "time: column 'a' is an int."
    assert "at" in problem.remedy


@pytest.mark.parametrize("options", [{"disorder": "1s"}, {"idle": "1s"}, {"silence": "1s"}])
def test_options_that_mean_nothing_for_a_source_that_stamps_its_rows(options: dict[str, str]) -> None:
    only_source_problem("meaningless-option", "a int", **options)


def test_idle_means_nothing_for_producers() -> None:
    only_source_problem("meaningless-option", "t timestamp", time="t", idle="1s", producers=["p"])


def test_a_source_with_every_option_that_goes_together() -> None:
    query = Query("q")
    query.output("o1", query.source("s", "t timestamp", time="T", disorder="1s", idle="5s"))
    query.output("o2", query.source("r", "t timestamp", time="t", silence="5s", producers=["p1", "p2"]))
    query.output("o3", query.source("p", "a int", silence="5s", producers=["p1"]))
    assert query.validate() == []


# --- names and shape -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "two words", "a.b", "a/b", "a:b", "1st", "x" * 65])
def test_names_are_plain(name: str) -> None:
    query = Query("q")
    query.output("out", query.source(name, "a int"))
    assert "bad-name" in [problem.code for problem in query.validate()]
    assert [problem.code for problem in validate(Diagram(name=name, boxes=(), outputs=()))] == ["bad-name", "no-output"]


def test_producers_have_plain_names_that_differ() -> None:
    only_source_problem("bad-name", "a int", producers=["p 1"])
    only_source_problem("duplicate-name", "a int", producers=["p", "p"])


def test_an_output_may_be_called_like_the_box_it_hangs_on() -> None:
    named_alike = diagram(source("s"), Map(name="m", input=Arrow("s"), columns="*"), m=Arrow("m"))
    assert codes(named_alike) == []


def test_sources_boxes_and_outputs_have_names_of_their_own() -> None:
    twice = diagram(source("s"), source("s", "b"), out=Arrow("s"))
    assert codes(twice) == ["duplicate-name"]
    assert codes(diagram(source("s"), s=Arrow("s"))) == ["duplicate-name"]
    assert codes(diagram(source("s"), S=Arrow("s"))) == ["duplicate-name"]
    same_output = Diagram(name="q", boxes=(source(),), outputs=(Output(name="o", input=Arrow("s")),) * 2)
    assert codes(same_output) == ["duplicate-name"]


def test_columns_of_a_source_must_differ_in_more_than_case() -> None:
    only_source_problem("duplicate-name", "a int, A string")


def test_a_join_whose_sides_share_a_column_is_told_to_rename_it() -> None:
    query, ping = ping_query()
    other = query.source("load", "Target string, cpu double")
    problem = only_problem(ping.join(other, on="cpu > rtt_ms", within="1s", name="j"), "duplicate-name")
    assert "'target'" in problem.message
    assert ".map(" in problem.remedy


def test_a_column_that_both_sides_of_a_join_have_is_ambiguous() -> None:
    query, ping = ping_query()
    other = query.source("load", "target string, cpu double")
    problems = problems_of(ping.join(other, on="target = 'a'", within="1s"))
    assert [problem.code for problem in problems] == ["duplicate-name", "ambiguous-column"]


def test_boxes_may_not_read_each_other() -> None:
    first = Map(name="m1", input=Arrow("m2"), columns="*")
    second = Map(name="m2", input=Arrow("m1"), columns="*")
    behind = Map(name="m3", input=Arrow("m2"), columns="nope")
    problems = validate(diagram(first, second, behind, out=Arrow("m3")))
    assert [problem.code for problem in problems] == ["cycle"]
    assert "m1 <- m2 <- m1" in problems[0].message


def test_each_circle_is_told_once() -> None:
    loop = Filter(name="f", input=Arrow("f"), predicates=("true",))
    union = Union(name="u", inputs=(Arrow("v"), Arrow("f")))
    other = Map(name="v", input=Arrow("u"), columns="*")
    assert codes(diagram(loop, union, other, out=Arrow("u"))) == ["cycle", "cycle"]


def test_an_arrow_from_nowhere_names_the_boxes_there_are() -> None:
    behind = Map(name="m", input=Arrow("pign"), columns="*")
    problems = validate(diagram(source("ping"), source("load"), behind, out=Arrow("m")))
    assert [problem.code for problem in problems] == ["unknown-arrow"]
    assert problems[0].box == "m"
    assert problems[0].remedy.startswith("Candidates: ping")


def test_a_port_that_is_not_there_names_those_that_are() -> None:
    box = Filter(name="f", input=Arrow("s"), predicates=("a > 1",), otherwise=True)
    problems = validate(diagram(source(), box, out=Arrow("f", 2)))
    assert [problem.code for problem in problems] == ["unknown-arrow"]
    assert problems[0].remedy == "Candidates: f.1, f."


def test_both_sides_of_a_join_are_looked_up() -> None:
    join = Join(name="j", left=Arrow("x"), right=Arrow("y"), on="a = b", within_us=1_000_000)
    problems = validate(diagram(source(), join, out=Arrow("j")))
    assert [problem.message[:5] for problem in problems] == ["left:", "right"]


def test_a_box_that_no_output_is_made_of_is_told_with_what_only_feeds_it() -> None:
    query, ping = ping_query()
    load = query.source("load", "cpu double")
    load.filter("cpu > 1", name="hot").map("cpu AS c", name="celsius")
    problem = only_problem(ping, "unused-box")
    assert problem.box == "celsius"
    assert "hot, load" in problem.message


def test_an_unused_port_of_a_used_box_is_fine() -> None:
    query, ping = ping_query()
    slow, _ = ping.filter("rtt_ms > 1000", otherwise=True)
    query.output("slow", slow)
    assert query.validate() == []


def test_a_query_without_outputs() -> None:
    query, _ = ping_query()
    assert [problem.code for problem in query.validate()] == ["no-output"]


def test_origins_are_bounded() -> None:
    many = Source(name="s", schema=(Column("a", "int"),), producers=tuple(f"p{n}" for n in range(ORIGINS + 1)))
    assert codes(diagram(many, out=Arrow("s"))) == ["too-many-origins"]


def test_two_hundred_boxes_in_a_row_are_checked() -> None:
    query, stream = ping_query()
    for number in range(99):
        stream = stream.filter(f"rtt_ms > {number} AND target = 'a'")
        stream = stream.map(f"source, target, rtt_ms * {number} AS rtt_ms")
    query.output("out", stream)
    assert len(query.diagram().boxes) == 199
    assert query.validate() == []


@pytest.mark.parametrize("doublings", [7, 25, 200])
def test_a_union_that_doubles_a_stream_too_often_is_named_where_it_begins(doublings: int) -> None:
    query, stream = ping_query()
    for number in range(doublings):
        stream = stream.union(stream, name=f"double_{number}").filter("rtt_ms > 1", name=f"f_{number}")
    query.output("out", stream)
    (problem,) = query.validate()
    assert (problem.code, problem.box) == ("too-many-scans", "double_6")
    assert "128 places; the limit is 64." in problem.message


def test_a_box_with_a_stage_of_its_own_is_read_once() -> None:
    query, stream = ping_query()
    for number in range(6):
        stream = stream.union(stream, name=f"double_{number}")
    counts = stream.aggregate("count(*) AS n", by="target", window="1s", name="counts")
    query.output("out", counts.union(counts))
    assert query.validate() == []

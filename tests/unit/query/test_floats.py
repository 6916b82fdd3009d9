"""Which floating-point aggregates something decides by, followed through every box."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.limits import SUM_SCALE
from anabranch.query.boxes import Aggregate, Arrow, Column, Diagram, Output, Source
from anabranch.query.builder import Query, Stream
from anabranch.query.classes import MODES, Recovery, as_text, judgements, recoveries, refusals
from anabranch.query.floats import FloatColumn, as_data, as_lines, exact_scales, float_columns
from anabranch.query.judgement import OperatorClass, Order

SCHEMA = "k string, x double, f float, n bigint, m decimal(8,2)"


def source() -> Stream:
    return Query("q").source("s", SCHEMA)


def totals(columns: str = "sum(x) AS total", *, scale: int | None = None) -> Stream:
    return source().aggregate(columns, by="k", window="1s", scale=scale, name="totals")


def found(stream: Stream) -> dict[str, FloatColumn]:
    """The columns of the query so far; what it is built of is valid, be it that some boxes have no output yet."""
    problems = {problem.code for problem in stream.query.validate()}
    assert problems <= {"unused-box", "no-output"}
    return {each.column: each for each in float_columns(stream.query.diagram())}


def deciders(stream: Stream) -> dict[str, list[str]]:
    """Per column, the boxes that decide by it."""
    return {name: [decision.box.name for decision in each.decisions] for name, each in found(stream).items()}


@pytest.mark.parametrize(
    "columns",
    [
        "count(*) AS v",
        "count(x) AS v",
        "max(x) AS v",
        "min(f) AS v",
        "sum(n) AS v",
        "sum(m) AS v",
        "avg(m) AS v",
        "bit_xor(n) AS v",
        "count_if(x > 1) AS v",
        "bool_or(x > 1) AS v",
        "every(x > 1) AS v",
        "max(x + f) AS v",
    ],
)
def test_what_is_the_same_in_any_order_is_none_of_those(columns: str) -> None:
    assert found(totals(columns)) == {}


@pytest.mark.parametrize("columns", ["sum(x) AS v", "sum(f) AS v", "avg(x) AS v", "mean(n) AS v", "1 + sum(x) AS v"])
def test_sums_and_averages_are_exact_where_something_decides(columns: str) -> None:
    assert found(totals(columns))["v"].scale is None
    column = found(totals(columns).filter("v > 1"))["v"]
    assert (column.scale, column.refused, column.certain) == (SUM_SCALE, False, True)


@pytest.mark.parametrize(
    "function",
    "stddev std stddev_pop stddev_samp variance var_pop var_samp skewness kurtosis covar_pop covar_samp corr".split(),
)
def test_other_functions_cannot_be_exact(function: str) -> None:
    second = ", x" if function.startswith("co") else ""
    harmless = found(totals(f"{function}(n{second}) AS v"))["v"]
    assert (harmless.scale, harmless.refused) == (None, False)
    assert found(totals(f"{function}(n{second}) AS v").filter("v > 1"))["v"].refused


def test_a_type_that_only_spark_can_tell_may_be_floating_point() -> None:
    column = found(totals("sum(ln(x)) AS v").filter("v > 1"))["v"]
    assert (column.scale, column.certain) == (SUM_SCALE, False)


def test_every_place_that_decides() -> None:
    assert deciders(totals().filter("total > 1", name="f")) == {"total": ["f"]}
    assert deciders(totals().filter("k = 'a'", "total + 1 < 2", name="f")[1]) == {"total": ["f"]}
    assert deciders(totals().drop("total > 1", name="d")) == {"total": ["d"]}
    assert deciders(totals().aggregate("count(*) AS n", by="total", window="1s", name="g")) == {"total": ["g"]}
    assert deciders(totals().map("floor(total) AS v", name="m")) == {"total": ["m"]}
    for on in ("total = x", "abs(total - x) < 1", "k = k2 AND total > 3"):
        stream = totals()
        other = Stream(stream.query, Arrow("s")).map("k AS k2, x", name="other")
        assert deciders(stream.join(other, on=on, within="1s", name="j")) == {"total": ["j"]}
        assert deciders(other.join(stream, on=on, within="1s", name="i"))["total"] == ["j", "i"]


def test_places_that_do_not() -> None:
    stream = totals()
    other = Stream(stream.query, Arrow("s")).map("k AS k2, x", name="other")
    joined = stream.join(other, on="k = k2 AND x > 3", within="1s")
    for last in (stream.filter("k = 'a'"), stream.drop(0.5), stream.map("total * 2 AS v"), joined):
        assert deciders(last) == {"total": []}
    assert deciders(totals().filter("total IS NOT NULL")) == {"total": []}
    assert deciders(totals().aggregate("count(total) AS n, max(k) AS k", window="1s")) == {"total": []}


def test_columns_are_followed_through_maps_by_their_expressions() -> None:
    stream = totals("sum(x) AS a, avg(x) AS b, sum(f) AS c")
    mapped = stream.map("*, A / 2 + coalesce(b, 0.0D) AS v, 3 AS w", name="m").map("v AS u, w, c", name="n")
    assert deciders(mapped.filter("w > 1 AND u > 1", name="f")) == {"a": ["f"], "b": ["f"], "c": []}


def test_columns_are_followed_through_unions_by_their_place() -> None:
    stream = totals("sum(x) AS a, max(x) AS b")
    turned = stream.map("b AS a, a AS b", name="turned")
    assert deciders(turned.union(turned, name="u").filter("a > 1", name="f")) == {"a": []}
    assert deciders(turned.union(turned, name="u").filter("b > 1", name="g")) == {"a": ["g"]}
    straight = totals("sum(x) AS a, max(x) AS b")
    both = straight.map("b AS a, a AS b", name="t").union(straight.map("a, b", name="i"), name="u")
    assert deciders(both.filter("a > 1", name="f")) == {"a": ["f"]}


def test_columns_are_followed_through_joins_and_other_ports() -> None:
    stream = totals()
    other = Stream(stream.query, Arrow("s")).map("k AS k2", name="other")
    joined = stream.join(other, on="k = k2", within="1s", name="j")
    _, rest = joined.filter("k = 'a'", otherwise=True, name="split")
    assert deciders(rest.drop("total > 1", name="d")) == {"total": ["d"]}


def test_columns_are_followed_through_aggregates() -> None:
    for outer in ("sum(total)", "avg(total)", "max(total)", "min(total + 1)"):
        stream = totals().aggregate(f"{outer} AS v", rows=3, name="outer").filter("v > 1", name="f")
        assert deciders(stream)["total"] == ["f"]
    assert deciders(totals().aggregate("count_if(total > 1) AS v", rows=3, name="outer")) == {"total": ["outer"]}
    filtered = totals().aggregate("count(*) FILTER (WHERE total > 1) AS v", rows=3, name="outer")
    assert deciders(filtered) == {"total": ["outer"]}
    chosen = totals().aggregate("count(CASE WHEN total > 1 THEN 1 END) AS v", rows=3, name="outer")
    assert deciders(chosen) == {"total": ["outer"]}


def test_an_aggregate_can_decide_by_its_own_sum() -> None:
    stream = totals("sum(x) > 1 AS a, CASE WHEN avg(x) > 1 THEN 'high' END AS b, CAST(sum(x) AS int) AS c, sum(x) AS d")
    assert deciders(stream) == {"a": ["totals"], "b": ["totals"], "c": ["totals"], "d": []}


@pytest.mark.parametrize(
    ("sql", "decides"),
    [
        ("CASE WHEN k = 'a' THEN total ELSE 0.0D END", False),
        ("CASE WHEN total > 1 THEN 1.0D ELSE 0.0D END", True),
        ("CASE total WHEN 1.0D THEN 1 END", True),
        ("if(k = 'a', total, NULL)", False),
        ("if(total > 1, 1, 2)", True),
        ("-total * 2 + abs(total) / 3", False),
        ("sqrt(pow(total, 2)) + greatest(total, 0.0D)", False),
        ("CAST(total AS float)", False),
        ("CAST(total AS decimal(10,2))", True),
        ("CAST(total AS string)", True),
        ("round(total, 2)", True),
        ("total % 2", True),
        ("total BETWEEN 1 AND 2", True),
        ("total IN (1, 2)", True),
        ("nullif(total, 0)", True),
        ("try_divide(1, total)", True),
        ("some_function(total)", True),
        ("isnull(total)", False),
    ],
)
def test_what_is_continuous_carries_on_and_everything_else_decides(sql: str, decides: bool) -> None:
    assert bool(deciders(totals().map(f"{sql} AS v"))["total"]) is decides


def test_null_may_be_a_matter_of_the_last_bit() -> None:
    assert not found(totals("stddev(x) AS v").filter("v IS NULL"))["v"].refused
    assert found(totals("skewness(x) AS v").filter("v IS NULL"))["v"].refused
    assert found(totals("kurtosis(x) AS v").aggregate("count(v) AS n", rows=2))["v"].refused


def test_a_declared_scale_is_for_all_sums_of_the_box() -> None:
    stream = totals("sum(x) AS a, avg(x) AS b, stddev(x) AS c, count(*) AS n", scale=3)
    stream.query.output("out", stream)
    assert exact_scales(stream.query.checked()) == {"totals": {"a": 3, "b": 3}}


def test_columns_are_named_in_lower_case() -> None:
    stream = totals("sum(x) AS Total").filter("TOTAL > 1")
    stream.query.output("out", stream)
    assert exact_scales(stream.query.checked()) == {"totals": {"total": SUM_SCALE}}


def refused_query() -> Diagram:
    stream = totals("stddev(x) AS sd, sum(x) AS total, count(*) AS n").filter("sd > 1 OR total > 2", name="loud")
    stream.query.output("out", stream)
    return stream.query.checked()


def test_modes_with_replicas_refuse_what_cannot_be_exact() -> None:
    diagram = refused_query()
    for mode in ("race", "dpc"):
        (problem,) = refusals(diagram, mode)
        assert (problem.code, problem.box) == ("inexact-decision", "totals")
        assert problem.message == (
            "'sd' is `stddev(x)`, which depends on the order of addition, "
            "and filter loud decides by it (`sd > 1 OR total > 2`)."
        )
    for mode in ("single", "amnesia", "passive_standby", "upstream_backup", "active_standby"):
        assert refusals(diagram, mode) == []
    with pytest.raises(ConfigError, match=r"There is no mode 'rase'.*") as caught:
        refusals(diagram, "rase")
    assert caught.value.remedy.startswith("Candidates: race")


def test_such_a_box_is_arbitrary_in_every_mode() -> None:
    diagram = refused_query()
    for order in Order:
        judged = judgements(diagram, order)
        assert judged["totals"].operator_class is OperatorClass.ARBITRARY
        assert judged["totals"].reason.startswith("sd depends on the order of addition, and filter loud decides by it")
        assert judged["loud"].operator_class is OperatorClass.REPEATABLE
    assert recoveries(diagram) == {name: mode.recoveries[OperatorClass.ARBITRARY] for name, mode in MODES.items()}
    assert recoveries(diagram)["race"] is Recovery.REFUSED


def test_without_a_decision_nothing_is_refused() -> None:
    stream = totals("stddev(x) AS sd")
    stream.query.output("out", stream)
    diagram = stream.query.checked()
    assert refusals(diagram, "race") == []
    assert recoveries(diagram)["race"] is Recovery.PRECISE


def test_text_and_data() -> None:
    diagram = refused_query()
    assert as_lines(diagram) == [
        "",
        "floating point",
        "  aggregate totals, sd: depends on the order of addition; filter loud decides by it (`sd > 1 OR total > 2`); "
        "refused where replicas must agree",
        "  aggregate totals, total: exact to 9 digits after the point; filter loud decides by it "
        "(`sd > 1 OR total > 2`)",
    ]
    decisions = [{"box": "loud", "sql": "sd > 1 OR total > 2"}]
    assert as_data(diagram) == {
        "floats": {
            "totals": {
                "sd": {"scale": None, "refused": True, "certain": True, "decisions": decisions},
                "total": {"scale": SUM_SCALE, "refused": False, "certain": True, "decisions": decisions},
            }
        }
    }
    assert as_lines(source().query.diagram()) == []


def told(stream: Stream) -> str:
    (line,) = as_lines(stream.query.diagram())[2:]
    return line.partition(": ")[2]


def test_each_way_to_compute_is_told() -> None:
    assert told(totals()) == "may differ in its last bits; nothing decides by it"
    assert told(totals(scale=1)) == "exact to 1 digit after the point; nothing decides by it"
    many = totals("sum(ln(x)) AS v").filter("v > 1", name="f").drop("v > 2", name="d").drop("v > 3", name="e")
    assert told(many) == (
        "exact to 9 digits after the point, if Spark finds it to be floating point; "
        "filter f decides by it (`v > 1`), and 2 more do"
    )


def test_explain_shows_them_between_classes_and_recovery() -> None:
    paragraphs = as_text(refused_query()).split("\n\n")
    assert [each.splitlines()[0] for each in paragraphs] == ["classes", "floating point", "state", "recovery"]
    assert "  race             refused     the query is arbitrary (totals)" in paragraphs[3]
    assert "  passive_standby  divergent   the query is arbitrary (totals)" in paragraphs[3]


def test_a_query_with_mistakes_is_followed_as_far_as_it_can_be_read() -> None:
    broken = Aggregate(name="a", input=Arrow("s"), columns="sum(x AS v", by=(), window_us=1)
    behind = Aggregate(name="b", input=Arrow("a"), columns="sum(v) AS v", by=(), window_us=1)
    lost = Aggregate(name="c", input=Arrow("nowhere"), columns="sum(x) AS v", by=(), window_us=1)
    boxes = (Source(name="s", schema=(Column("x", "double"),)), broken, behind, lost)
    assert float_columns(Diagram(name="q", boxes=boxes, outputs=(Output(name="o", input=Arrow("a")),))) == ()

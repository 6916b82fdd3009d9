"""Python boxes in queries: every bad parameter with its message, what comes out, its class, and who refuses it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import QueryError
from anabranch.query import classes
from anabranch.query.boxes import Arrow, Python
from anabranch.query.builder import Stream
from anabranch.query.files import load
from anabranch.query.floats import exact_scales
from anabranch.query.graph import stages
from anabranch.query.judgement import OperatorClass, Order
from anabranch.query.needs import needs
from anabranch.query.schema import format_schema
from anabranch.query.schemas import schemas
from tests.unit.query.test_validate_boxes import from_yaml, only_problem, ping_query, reads_back, told

FUNCTION = "scoring:score"


def scored(**options: Any) -> Stream:
    return ping_query()[1].python(FUNCTION, "score double, label string", **{"name": "scored", **options})


def test_a_function_adds_columns() -> None:
    diagram = reads_back(scored(reads="rtt_ms, Source", deterministic=True))
    assert format_schema(schemas(diagram)[Arrow("scored")]) == (
        "source string, target string, rtt_ms double, score double, label string"
    )
    assert diagram.box("scored") == Python(
        name="scored",
        input=Arrow("ping"),
        function=FUNCTION,
        columns=schemas(diagram)[Arrow("scored")][3:],
        reads=("rtt_ms", "Source"),
        deterministic=True,
    )


@pytest.mark.parametrize("function", ["score", "scoring:", ":score", "scoring:score()", "a b:c", "../x:y", "1:2", ""])
def test_a_function_has_the_name_of_its_module(function: str) -> None:
    problem = only_problem(ping_query()[1].python(function, "score double"))
    assert told(problem) == (
        "bad-function",
        f"function: {function!r} is not the name of a function.",
        "Write module:function, such as scoring:score.",
    )


@pytest.mark.parametrize("function", ["a:b", "a.b:c", "a.b:C.d", "größe:maß"])
def test_modules_in_packages_and_methods_of_classes_are_functions(function: str) -> None:
    reads_back(ping_query()[1].python(function, "score double"))


@pytest.mark.parametrize(
    ("columns", "reads", "code", "message"),
    [
        ("", "", "unsupported-type", "columns: no columns given that the function computes."),
        ("score", "", "unsupported-type", "Column 'score' has no type."),
        ("score varchar", "", "unsupported-type", "Column 'score' has the type 'varchar'."),
        ("score string collate x", "", "collation", "Column 'score' has a collation."),
        ("_score double", "", "reserved-column", "columns: column '_score' begins with `_`."),
        ("s-core double", "", "bad-name", "columns: a column cannot be called 's-core'."),
        ("a int, A int", "", "duplicate-name", "columns: the column 'A' appears twice."),
        ("Target string", "", "duplicate-name", "columns: the input has a column 'Target' already."),
        ("score double", "rtt", "unknown-column", "reads: there is no column 'rtt'."),
        ("score double", "source, SOURCE", "duplicate-name", "reads: the column 'SOURCE' appears twice."),
        ("score double", "_stime", "reserved-column", "reads: '_stime' is a header column."),
    ],
)
def test_columns_that_are_wrong(columns: str, reads: str, code: str, message: str) -> None:
    problem = only_problem(ping_query()[1].python(FUNCTION, columns, reads=reads))
    assert (problem.code, problem.message) == (code, message)
    assert problem.remedy


def test_values_of_the_wrong_kind_are_told() -> None:
    with pytest.raises(QueryError, match="deterministic: 'yes' is a str"):
        scored(deterministic="yes")
    with pytest.raises(QueryError, match="function: 1 is an int"):
        ping_query()[1].python(1, "score double")  # type: ignore[arg-type]
    (problem,) = from_yaml("python: {name: box, input: ping, function: 'a:b', columns: n int, deterministic: 1}")
    assert told(problem) == ("wrong-type", "boxes[1].python.deterministic: 1 is an int.", "Write true or false.")
    (problem,) = from_yaml("python: {name: box, input: ping, columns: n int}")
    assert told(problem) == ("missing-key", "boxes[1].python has no key `function`.", "Add `function`.")


def test_what_is_not_declared_deterministic_is_arbitrary_and_refused_where_replicas_must_agree() -> None:
    diagram = reads_back(scored())
    for order in Order:
        judgement = classes.judge(diagram.box("scored"), order)
        assert judgement.operator_class is OperatorClass.ARBITRARY
        assert judgement.reason == "scoring:score is not declared deterministic"
    for mode in ("race", "dpc"):
        (problem,) = classes.refusals(diagram, mode)
        assert (problem.code, problem.box) == ("arbitrary-function", "scored")
        assert problem.message.startswith("scoring:score is not declared deterministic")
    assert classes.refusals(diagram, "single") == []


def test_what_is_declared_deterministic_is_repeatable() -> None:
    diagram = reads_back(scored(deterministic=True))
    assert {classes.judge(diagram.box("scored"), order).operator_class for order in Order} == {OperatorClass.REPEATABLE}
    assert classes.refusals(diagram, "race") == []


def test_a_function_decides_by_the_sums_that_it_reads() -> None:
    _, ping = ping_query()
    sums = ping.aggregate("sum(rtt_ms) AS s, avg(rtt_ms) AS a", window="1s", name="sums")
    diagram = reads_back(sums.python(FUNCTION, "score double", reads="S"))
    assert exact_scales(diagram) == {"sums": {"s": 9}}


def test_explain_says_what_a_function_costs() -> None:
    text = classes.as_text(reads_back(scored(reads="rtt_ms", deterministic=True)))
    assert "scoring:score runs in Spark's Python workers: in every batch rtt_ms go there and score, label come" in text


@pytest.mark.parametrize(("reads", "needed"), [("rtt_ms", {"rtt_ms", "label"}), ("", None)])
def test_a_stage_reads_what_the_function_and_its_readers_need(reads: str, needed: set[str] | None) -> None:
    counted = scored(reads=reads).aggregate("count(*) AS n", by="label", window="1s", name="counted")
    diagram = reads_back(counted)
    (stage,) = stages(diagram)
    assert needs(diagram, stage)["ping"].columns == needed


def test_a_module_is_searched_beside_the_query_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "query.yaml"
    stream = scored()
    stream.query.output("out", stream)
    file.write_text(stream.query.to_yaml())
    load(file)
    load(file)
    assert sys.path[-1] == str(tmp_path.resolve())
    assert sys.path.count(str(tmp_path.resolve())) == 1

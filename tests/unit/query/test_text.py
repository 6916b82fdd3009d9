"""A query as plain data and YAML: exact in both directions, and patient with mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.errors import ConfigError
from anabranch.query.boxes import Aggregate, Arrow, Box, Column, Diagram, Drop, Filter, Join, Map, Output, Source, Union
from anabranch.query.builder import Query
from anabranch.query.text import diagram_from_dict, diagram_to_dict

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
sql = st.text(min_size=1, max_size=20)
durations = st.integers(0, 10**14)
arrows = st.builds(Arrow, names, st.integers(0, 3))
columns = st.builds(Column, st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.sampled_from(["int", "decimal(9,2)"]))
sources = st.builds(
    Source,
    name=names,
    schema=st.lists(columns, max_size=3).map(tuple),
    time=st.none() | names,
    disorder_us=durations,
    idle_us=st.none() | durations,
    silence_us=st.none() | durations,
    horizon_us=st.none() | durations,
    producers=st.lists(names, max_size=2).map(tuple),
)
filters = st.builds(
    Filter, name=names, input=arrows, predicates=st.lists(sql, max_size=3).map(tuple), otherwise=st.booleans()
)
maps = st.builds(Map, name=names, input=arrows, columns=sql)
unions = st.builds(Union, name=names, inputs=st.lists(arrows, max_size=3).map(tuple))
aggregates = st.builds(
    Aggregate,
    name=names,
    input=arrows,
    columns=sql,
    by=st.lists(names, max_size=2).map(tuple),
    window_us=durations,
    every_us=durations,
    scale=st.none() | st.integers(),
)
counting = st.builds(
    Aggregate,
    name=names,
    input=arrows,
    columns=sql,
    by=st.lists(names, max_size=2).map(tuple),
    rows=st.integers(),
    every_rows=st.integers(),
)
drops = st.builds(Drop, name=names, input=arrows, fraction=st.floats(allow_nan=False), seed=st.integers()) | st.builds(
    Drop, name=names, input=arrows, predicate=sql
)
joins = st.builds(Join, name=names, left=arrows, right=arrows, on=sql, within_us=durations)
boxes: st.SearchStrategy[Box] = st.one_of(sources, filters, maps, drops, unions, aggregates, counting, joins)
outputs = st.lists(st.builds(Output, name=names, input=arrows), max_size=3, unique_by=lambda output: output.name)
diagrams = st.builds(Diagram, name=names, boxes=st.lists(boxes, max_size=5).map(tuple), outputs=outputs.map(tuple))


@given(diagrams)
def test_any_diagram_reads_back_from_its_data(diagram: Diagram) -> None:
    data = json.loads(json.dumps(diagram_to_dict(diagram)))
    draft = diagram_from_dict(data)
    assert draft.mistakes == {}
    assert draft.diagram == diagram


@given(diagrams)
@example(Diagram(name="q", boxes=(Map(name="m", input=Arrow("s"), columns="'\x85\u2028\u2029\n' AS a"),), outputs=()))
def test_any_diagram_reads_back_from_yaml(diagram: Diagram) -> None:
    query = Query.from_dict(diagram_to_dict(diagram))
    again = Query.from_yaml(query.to_yaml())
    assert again.diagram() == diagram
    assert again.to_yaml() == query.to_yaml()


BY_HAND = """
query: q
boxes:
  - source: {name: ping, schema: "target string, rtt_ms double", producers: [a, b], silence: 1m}
  - source: {name: load, schema: "server string, cpu double, at timestamp", time: at, disorder: 5s, idle: 2s}
  - filter: {name: slow, input: ping, where: ["rtt_ms > 1000"], otherwise: true}
  - map: {name: quick, input: slow.1, columns: target}
  - join: {name: both, left: slow, right: load, on: target = server, within: 500ms}
  - aggregate: {name: counts, input: slow.0, columns: count(*) AS n, by: "target", window: 10s}
  - aggregate: {name: tens, input: slow.0, columns: count(*) AS n, rows: 10, every_rows: 5}
  - drop: {name: some, input: tens, fraction: 0.25, seed: 7}
  - drop: {name: most, input: some, where: n > 3}
  - union: {name: all, inputs: [quick, quick]}
outputs:
  pairs: both
  fewer: most
  everything: all
  numbers: counts
"""


def test_a_diagram_can_be_written_by_hand() -> None:
    diagram = Query.from_yaml(BY_HAND).checked()
    q = Query("q")
    ping = q.source("ping", "target string, rtt_ms double", producers=["a", "b"], silence="1m")
    load = q.source("load", "server string, cpu double, at timestamp", time="at", disorder="5s", idle="2s")
    slow, rest = ping.filter("rtt_ms > 1000", otherwise=True, name="slow")
    quick = rest.map("target", name="quick")
    both = slow.join(load, on="target = server", within="500ms", name="both")
    counts = slow.aggregate("count(*) AS n", by="target", window="10s", name="counts")
    tens = slow.aggregate("count(*) AS n", rows=10, every_rows=5, name="tens")
    fewer = tens.drop(0.25, seed=7, name="some").drop("n > 3", name="most")
    everything = quick.union(quick, name="all")
    q.output("pairs", both)
    q.output("fewer", fewer)
    q.output("everything", everything)
    q.output("numbers", counts)
    assert diagram == q.checked()


def test_the_key_on_is_a_word_and_not_a_truth_value() -> None:
    q = Query("q")
    s = q.source("s", "a int")
    q.output("o", s.join(s.map("a AS b"), on="a = b", within="1s"))
    assert "      on: a = b\n" in q.to_yaml()
    assert Query.from_yaml(q.to_yaml()).checked() == q.checked()


def told(box: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The problems of a query with a source ``s`` and this box, which an output reads."""
    data = {
        "query": "q",
        "boxes": [{"source": {"name": "s", "schema": "a int"}}, box],
        "outputs": {"o": "b", "all": "s"},
    }
    return [(problem.code, problem.message, problem.remedy) for problem in Query.from_dict(data).validate()]


def test_windows_are_of_a_time_or_of_tuples() -> None:
    (problem,) = told({"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n"}})
    assert problem == ("missing-key", "boxes[1].aggregate has no key `window`.", "Add `window` or `rows`.")
    ((code, message, _),) = told({"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n", "row": 3}})
    assert (code, "`row`" in message) == ("unknown-key", True)
    ((code, message, _),) = told({"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n", "rows": "3"}})
    assert (code, message) == ("wrong-type", "boxes[1].aggregate.rows: '3' is a str.")
    ((code, _, remedy),) = told({"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n", "rows": True}})
    assert (code, remedy) == ("wrong-type", "Write a whole number.")


def test_a_drop_says_what_it_drops() -> None:
    (problem,) = told({"drop": {"name": "b", "input": "s"}})
    assert problem == ("missing-key", "boxes[1].drop has no key `fraction`.", "Add `fraction` or `where`.")
    ((code, _, remedy),) = told({"drop": {"name": "b", "input": "s", "fraction": "a tenth"}})
    assert (code, remedy) == ("wrong-type", "Write a number such as 0.1.")


def test_an_unknown_key_lists_the_keys_there_are() -> None:
    ((code, message, remedy),) = told({"map": {"name": "b", "input": "s", "columns": "a", "colour": "red"}})
    assert code == "unknown-key"
    assert message == "boxes[1].map has an unknown key `colour`."
    assert remedy == "Candidates: columns, name, input."


def test_a_slip_of_the_pen_in_a_key_is_one_mistake() -> None:
    ((code, message, remedy),) = told({"filter": {"name": "b", "input": "s", "were": ["a > 1"]}})
    assert (code, message) == ("unknown-key", "boxes[1].filter has an unknown key `were`.")
    assert remedy.startswith("Candidates: where")


def test_a_slip_in_a_key_that_may_be_missing_is_told_too() -> None:
    box = {"filter": {"name": "b", "input": "s", "where": ["a > 1"], "otherwize": True}}
    assert [code for code, _, _ in told(box)] == ["unknown-key"]


def test_every_missing_key_is_told_and_nothing_that_follows_from_it() -> None:
    problems = told({"aggregate": {"name": "b"}})
    assert [(code, message) for code, message, _ in problems] == [
        ("missing-key", "boxes[1].aggregate has no key `input`."),
        ("missing-key", "boxes[1].aggregate has no key `columns`."),
        ("missing-key", "boxes[1].aggregate has no key `window`."),
    ]


@pytest.mark.parametrize(
    ("box", "code", "message"),
    [
        ({"map": {"name": "b", "input": 5, "columns": "a"}}, "wrong-type", "boxes[1].map.input: 5 is an int."),
        ({"map": {"name": "b", "input": "s.x", "columns": "a"}}, "wrong-type", "'s.x' is not an arrow"),
        ({"map": {"name": "b", "input": "s", "columns": ["a"]}}, "wrong-type", "boxes[1].map.columns"),
        ({"filter": {"name": "b", "input": "s", "where": [1]}}, "wrong-type", "boxes[1].filter.where: 1 is an int."),
        (
            {"filter": {"name": "b", "input": "s", "where": "a > 1", "otherwise": "no"}},
            "wrong-type",
            "boxes[1].filter.otherwise: 'no' is a str.",
        ),
        (
            {"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n", "window": 10}},
            "wrong-type",
            "boxes[1].aggregate.window: 10 is an int.",
        ),
        (
            {"aggregate": {"name": "b", "input": "s", "columns": "count(*) AS n", "window": "soon"}},
            "bad-duration",
            "boxes[1].aggregate.window: 'soon' is not a duration.",
        ),
        ({"map": {"name": "b", "input": "t", "columns": "a"}}, "unknown-arrow", "there is no box 't'"),
    ],
)
def test_a_wrong_value_names_its_place_and_is_told_once(box: dict[str, Any], code: str, message: str) -> None:
    ((found_code, found_message, _),) = told(box)
    assert found_code == code
    assert message in found_message


def test_a_box_without_a_name_is_called_by_its_place() -> None:
    data = {"query": "q", "boxes": [{"source": {"schema": "a int"}}], "outputs": {"o": "s"}}
    problems = [str(problem) for problem in Query.from_dict(data).validate()]
    assert any("boxes[0].source has no name" in problem for problem in problems)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the query: [] is a list."),
        ({"query": "q", "boxes": {}, "outputs": {}}, "boxes: {} is a dict."),
        ({"query": "q", "boxes": [], "outputs": []}, "outputs: [] is a list."),
        ({"query": 5, "boxes": [], "outputs": {}}, "query: 5 is an int."),
        ({"query": "q", "boxes": ["s"], "outputs": {}}, "boxes[0] is not one box."),
        ({"query": "q", "boxes": [{"filtr": {}}], "outputs": {}}, "there is no kind of box `filtr`"),
        ({"query": "q", "boxes": [{"map": 5}], "outputs": {}}, "boxes[0].map: 5 is an int."),
        ({"query": "q", "boxes": [], "outputs": {"o": 5}}, "outputs.o: 5 is an int."),
        ({"query": "q", "box": [], "outputs": {}}, "the query has an unknown key `box`"),
    ],
)
def test_data_of_another_shape_is_told_by_its_place(data: object, message: str) -> None:
    assert any(message in problem.message for problem in Query.from_dict(data).validate())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query: [", "line 1"),
        ("query: q\noutputs:\n  o: s\n  o: t\n", "the key 'o' appears twice"),
        ("query: !!python/object:os.system {}", "could not determine a constructor"),
    ],
)
def test_what_is_not_yaml_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="The YAML text, line") as caught:
        Query.from_yaml(text)
    assert message in str(caught.value)

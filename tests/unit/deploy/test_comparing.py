"""The techniques that racing is compared with: who is told to hold, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.draw import as_data, as_text
from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import load_plan
from anabranch.model.techniques import COMPARED, Technique
from tests.unit.deploy.files import mistakes, write

QUERY = """\
query: paths
boxes:
  - source: {name: one, schema: "x bigint"}
  - source: {name: two, schema: "x bigint"}
  - union: {name: both, inputs: [one, two]}
  - filter: {name: even, input: both, where: "x % 2 = 0"}
outputs:
  even: even
"""

FILE = """\
[nodes]
a = {address = "127.0.0.1:7001"}
b = {address = "127.0.0.1:7002"}
c = {address = "127.0.0.1:7003"}
d = {address = "127.0.0.1:7004"}

[queries.paths]
file = "paths.yaml"
mode = "race"
technique = "deterministic"
place = {both = ["b", "c"], even = "d"}
entry = {one = "a", two = "a"}
"""


@pytest.mark.parametrize("technique", COMPARED)
def test_the_replicas_hold_and_nobody_else(tmp_path: Path, technique: Technique) -> None:
    plan = load_plan(write(tmp_path, FILE.replace("deterministic", technique), QUERY))
    told = {name: assigned(plan, name, "paths").technique for name in plan.nodes}
    assert told == {"a": Technique.RACE, "b": technique, "c": technique, "d": Technique.RACE}


def test_a_technique_is_shown_as_an_experiment(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, FILE, QUERY))
    assert "query paths, mode race, technique deterministic: an experiment" in as_text(plan)
    assert as_data(plan)["queries"]["paths"]["technique"] == "deterministic"


def test_without_a_technique_nobody_holds(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, FILE.replace('technique = "deterministic"\n', ""), QUERY))
    assert {assigned(plan, name, "paths").technique for name in plan.nodes} == {Technique.RACE}
    assert "query paths, mode race\n" in as_text(plan)
    assert as_data(plan)["queries"]["paths"]["technique"] is None


@pytest.mark.parametrize(
    ("technique", "change", "by", "told"),
    [
        ("deterministic", '"race"', '"single"', "The technique deterministic needs mode race."),
        ("deterministic", '["b", "c"]', '"b"', "No box has several copies."),
        ("synchronization", 'even = "d"', 'even = ["b", "c"]', "The output 'even' has several copies"),
        ("deterministic", 'one = "a"', 'one = "b"', "A node that runs 'both' is also an entry point."),
        ("deterministic", 'even = "d"', 'even = ["c", "d"]', "'both' do not run the same boxes: b, c."),
    ],
)
def test_what_a_technique_cannot_do_is_refused(tmp_path: Path, technique: str, change: str, by: str, told: str) -> None:
    text = FILE.replace("deterministic", technique).replace(change, by)
    found = [each for each in mistakes(tmp_path, text, QUERY) if each.code == "bad-technique"]
    assert [each.path for each in found] == ["queries.paths.technique"]
    assert told in found[0].message


@pytest.mark.parametrize(
    ("change", "by", "told"),
    [
        (
            'one, schema: "x bigint"',
            'one, schema: "x bigint", producers: [p, q]',
            "The rows of 'one' do not arrive in time order",
        ),
        (
            'one, schema: "x bigint"',
            'one, schema: "x bigint, at timestamp", time: at',
            "The rows of 'one' do not arrive in time order",
        ),
    ],
)
def test_an_order_of_rows_that_have_none_is_refused(tmp_path: Path, change: str, by: str, told: str) -> None:
    query = QUERY.replace(change, by)
    if "time: at" in by:
        query = query.replace('two, schema: "x bigint"', 'two, schema: "x bigint, at timestamp", time: at')
    (found,) = mistakes(tmp_path, FILE, query)
    assert (found.code, told in found.message) == ("bad-technique", True)


def test_an_order_behind_another_box_is_refused(tmp_path: Path) -> None:
    text = FILE.replace('both = ["b", "c"], even = "d"', 'both = "d", even = ["b", "c"]')
    (found,) = mistakes(tmp_path, text, QUERY)
    assert "'even' has several copies and reads 'box:both', which is not a source." in found.message

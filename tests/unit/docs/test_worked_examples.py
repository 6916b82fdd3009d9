"""The tables of the page of boxes: what comes out of the boxes of its queries is what the page says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import pytest

import anabranch as ab
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.query.boxes import Diagram, Source
from anabranch.query.catalog import KINDS
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.unit.docs.pages import ROOT, blocks

PAGE: Final = ROOT / "docs" / "reference" / "boxes.md"
START_US: Final = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * SECOND
WITHOUT_TABLES: Final = {"Source"}
"""It makes nothing of tuples: they enter there."""

Table = list[dict[str, str]]


def tables_of(text: str) -> dict[tuple[str, str], Table]:
    """By direction (``in`` or ``out``) and name of the stream."""
    found = {}
    for match in re.finditer(r"^\| (in|out) (\w+) \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", text, re.MULTILINE):
        columns = [cell.strip() for cell in match[0].splitlines()[0].split("|")[2:-1]]
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in match[3].splitlines()]
        found[match[1], match[2]] = [dict(zip(("_time", *columns), line, strict=True)) for line in lines]
    return found


def sections() -> dict[str, str]:
    pieces = re.split(r"^## (\w+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


WORKED = {name: tables for name, text in sections().items() if (tables := tables_of(text))}


@pytest.fixture(autouse=True)
def functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples beside the pages have the functions that the pages call."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def test_the_function_of_the_page_is_that_of_the_examples() -> None:
    (shown,) = [each.text for each in blocks(PAGE) if each.language == "text" and "def fare" in each.text]
    assert shown.strip() in (ROOT / "examples" / "scoring.py").read_text()


@cache
def queries() -> list[Diagram]:
    names: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
    return [query.checked() for query in names.values() if isinstance(query, ab.Query)]


def value_of(text: str, type_: str | None) -> object:
    if text == "NULL":
        return None
    return text if type_ == "string" else float(text) if type_ == "double" else int(text)


def written(value: object) -> str:
    return "NULL" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def tuples_of(source: Source, table: Table) -> list[Tuple]:
    tuples = []
    for number, row in enumerate(table, start=1):
        time = START_US + round(float(row["_time"]) * SECOND)
        values = {each.name: value_of(row.get(each.name, "NULL"), each.type) for each in source.schema}
        if source.time is not None:
            values[source.time] = time
        tuples.append(Tuple(origin=source.origins[0], stime=time, tid=number, values=values))
    return tuples


def shown(tuples: list[Tuple], columns: Mapping[str, str]) -> Counter[tuple[str, ...]]:
    names = [name for name in columns if name != "_time"]
    return Counter(
        (f"{(each.stime - START_US) / SECOND:g}", *(written(each.values[name]) for name in names)) for each in tuples
    )


@pytest.mark.parametrize("section", WORKED)
def test_a_box_makes_what_the_page_says(section: str) -> None:
    tables = WORKED[section]
    outputs = [name for direction, name in tables if direction == "out"]
    (diagram,) = [each for each in queries() if {output.name for output in each.outputs} >= set(outputs)]
    run = ReferenceRun(diagram)
    for source in diagram.sources:
        run.feed(source.name, tuples_of(source, tables.get(("in", source.name), [])), {})
    for source in diagram.sources:
        run.feed(source.name, [], dict.fromkeys(source.origins, CLOSED_US))
    for name in outputs:
        wanted = Counter(tuple(row.values()) for row in tables["out", name])
        assert shown(run.results()[name], tables["out", name][0]) == wanted


def test_every_box_has_a_worked_example() -> None:
    assert {kind.makes.__name__ for kind in KINDS.values()} - WORKED.keys() == WITHOUT_TABLES

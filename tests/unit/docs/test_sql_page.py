"""The page of SQL: its statements are one query, and the rows that it shows are what the query makes of the rows that
it shows first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.model.times import SECOND
from anabranch.query.files import load
from anabranch.reference.lookups import with_rows
from tests.unit.docs.pages import ROOT, blocks
from tests.unit.query.sql_runs import Rows, counted, results

PAGE = ROOT / "docs" / "reference" / "sql.md"
SQL = "\n".join(block.text for block in blocks(PAGE) if block.language == "sql")
DECLARED = ab.sql(SQL).checked()


def _value(cell: str) -> Any:
    found = re.fullmatch(r"(-?)(\d\d):(\d\d):(\d\d)", cell)
    if found is not None:
        hours, minutes, seconds = (int(part) for part in found.groups()[1:])
        return (-1 if found[1] else 1) * (hours * 3600 + minutes * 60 + seconds) * SECOND
    if cell == "NULL":
        return None
    return int(cell) if cell.isdigit() else cell


def _tables() -> dict[str, Rows]:
    """Each block of text that begins with the name of a stream: a line of columns, and rows."""
    names = {source.name for source in DECLARED.sources} | {output.name for output in DECLARED.outputs}
    names |= {table.name for table in DECLARED.tables}
    found: dict[str, Rows] = {}
    for block in blocks(PAGE):
        name, *lines = block.text.splitlines()
        if block.language == "text" and name in names:
            columns = lines[0].split()
            found[name] = [dict(zip(columns, map(_value, line.split()), strict=True)) for line in lines[1:]]
    return found


TABLES = _tables()
DIAGRAM = with_rows(
    DECLARED, {table.name: [tuple(row.values()) for row in TABLES[table.name]] for table in DECLARED.tables}
)
"""With the rows of its tables, which the page shows, too."""
MADE = results(DIAGRAM, {source.name: TABLES[source.name] for source in DIAGRAM.sources})


@pytest.mark.parametrize("output", [output.name for output in DIAGRAM.outputs])
def test_the_page_shows_the_rows_of_every_output(output: str) -> None:
    assert counted(MADE[output]) == counted(TABLES[output])


def test_the_page_shows_what_a_refusal_looks_like(tmp_path: Path) -> None:
    shown = next(block.text for block in blocks(PAGE) if block.text.startswith("error[query]"))
    file = tmp_path / "report.sql"
    file.write_text("CREATE SOURCE ping (host STRING);\nSELECT host FROM ping    ORDER BY host;")
    with pytest.raises(ab.QueryError) as caught:
        load(file).checked()
    assert f"error[query]: {caught.value.message}\n" == shown

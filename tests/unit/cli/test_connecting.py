"""Feeds and writers on the command line: they replace what the query names, and a mistake is told as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.cli.connecting import connect_query, table_places
from anabranch.query.connectors import ConsoleWriter, FileFeed, JsonLinesWriter
from anabranch.query.draw import as_text


@pytest.fixture
def query() -> ab.Query:
    query = ab.Query("q")
    query.output("o", query.source("s", "x bigint", feed="generator"), to=ab.writers.parquet("dir"))
    return query


def test_what_is_given_replaces_what_the_query_names(query: ab.Query) -> None:
    connect_query(query, ["s=file:a.csv"], ["o=jsonl:out.jsonl", "o=console"])
    diagram = query.checked()
    assert diagram.sources[0].feed == FileFeed(path="a.csv")
    assert diagram.outputs[0].to == (JsonLinesWriter(path="out.jsonl"), ConsoleWriter())
    assert "fed by file" in as_text(diagram)
    assert "to jsonl:out.jsonl, to console" in as_text(diagram)


def test_push_and_flight_take_away_what_the_query_names(query: ab.Query) -> None:
    connect_query(query, ["s=push"], ["o=flight"])
    assert query.checked() == query.diagram().without_connectors()


def test_a_table_is_where_the_command_line_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = ["a=x.csv", "b=/y.pq", "c=sqlite:z.db", "d=postgresql://h/db"]
    assert table_places(places) == {
        "a": f"{tmp_path}/x.csv",
        "b": "/y.pq",
        "c": f"sqlite:{tmp_path}/z.db",
        "d": "postgresql://h/db",
    }
    with pytest.raises(ab.ConfigError, match=r"--table x\.csv: it has no name\. Write --table NAME=FILE\."):
        table_places(["x.csv"])


@pytest.mark.parametrize(
    ("sources", "outputs", "words"),
    [
        (["t=push"], [], ("--source t=push", "Candidates: s")),
        (["s=fille:a.csv"], [], ("--source s=fille:a.csv", "file")),
        (["file:a.csv"], [], ("--source file:a.csv", "NAME=KIND")),
        ([], ["o=jsonl"], ("--output o=jsonl", "path")),
        ([], ["p=console"], ("--output p=console", "Candidates: o")),
    ],
)
def test_a_mistake_is_told_as_it_was_written(
    query: ab.Query, sources: list[str], outputs: list[str], words: tuple[str, ...]
) -> None:
    with pytest.raises(ab.ConfigError) as caught:
        connect_query(query, sources, outputs)
    assert [word for word in words if word not in str(caught.value)] == []

"""Feeds and writers as text, as data and in Python: the same value, and a clear word about every mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.query.boxes import Source
from anabranch.query.connectors import (
    ConsoleWriter,
    FileFeed,
    GeneratorFeed,
    JsonLinesWriter,
    ParquetWriter,
    SparkFeed,
    SparkWriter,
    Values,
)
from anabranch.query.specs import feed_from, feed_to_plain, writer_from, writer_to_plain

texts = st.text(min_size=1, max_size=12).filter(lambda text: text.strip())
amounts = st.none() | st.floats(0.001, 1e9)
numbers = st.integers(-1000, 1000).map(str)
values = st.one_of(
    st.builds(Values, st.just("choice"), st.lists(st.text(max_size=6), min_size=1, max_size=3).map(tuple)),
    st.builds(Values, st.just("uniform"), st.tuples(numbers, numbers).map(lambda ab: tuple(sorted(ab, key=int)))),
    st.builds(Values, st.just("sequence"), st.lists(numbers, max_size=2).map(tuple)),
)
options = st.dictionaries(texts, st.text(max_size=8), max_size=3).map(lambda found: tuple(sorted(found.items())))
thens = st.sampled_from(["close", "wait"])
feeds = st.one_of(
    st.builds(
        GeneratorFeed,
        rate=amounts,
        seed=st.integers(0, 2**63 - 1),
        rows=st.none() | st.integers(1, 10**9),
        start_us=st.none() | st.integers(1, 10**15),
        every_us=st.none() | st.integers(1, 10**12),
        then=thens,
        producer=st.none() | texts,
        columns=st.dictionaries(texts, values, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    ),
    st.builds(
        FileFeed, path=texts, format=st.none() | st.sampled_from(["csv", "jsonl", "parquet"]), speed=amounts, then=thens
    ),
    st.builds(SparkFeed, format=texts, schema=st.none() | texts, lane=st.none() | texts, options=options),
)
writers = st.one_of(
    st.builds(JsonLinesWriter, path=texts),
    st.builds(ParquetWriter, path=texts, rows=st.integers(1, 10**9), every_us=st.integers(1, 10**12)),
    st.builds(ConsoleWriter, form=st.sampled_from(["json", "table"])),
    st.builds(SparkWriter, format=texts, options=options, guarantee=st.sampled_from(["exactly-once", "at-least-once"])),
)


@given(feeds)
def test_any_feed_reads_back_from_its_data(feed: ab.feeds.Feed) -> None:
    assert feed_from(feed_to_plain(feed)) == feed


@given(writers)
def test_any_writer_reads_back_from_its_data(writer: ab.writers.Writer) -> None:
    assert writer_from(writer_to_plain(writer)) == writer


@given(st.none() | feeds, st.lists(writers, max_size=2))
def test_a_query_keeps_its_feeds_and_writers_in_yaml(feed: ab.feeds.Feed | None, to: list[ab.writers.Writer]) -> None:
    query = ab.Query("q")
    query.output("o", query.source("s", "x bigint", feed=feed), to=to)
    assert ab.Query.from_yaml(query.to_yaml()).diagram() == query.diagram()


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        ("generator", GeneratorFeed()),
        ("generator:rate=1000,seed=7", GeneratorFeed(rate=1000, seed=7)),
        ("generator:rate=max,rows=5,then=wait", GeneratorFeed(rate=None, rows=5, then="wait")),
        (
            "generator:rtt_ms=uniform(1, 6),target=choice(a,b)",
            GeneratorFeed(
                columns=(("rtt_ms", Values("uniform", ("1", "6"))), ("target", Values("choice", ("a", "b"))))
            ),
        ),
        ("generator:start=2026-01-01T00:00:00Z", GeneratorFeed(start_us=1_767_225_600_000_000)),
        ("file:pings.csv,speed=10", FileFeed(path="pings.csv", speed=10)),
        ("file:a,b.csv", FileFeed(path="a,b.csv")),
        ('file:path="a,speed=1.csv"', FileFeed(path="a,speed=1.csv")),
        (
            "spark:kafka,kafka.bootstrap.servers=a:9092,b:9092,subscribe=t,lane=partition,number=offset",
            SparkFeed(
                format="kafka",
                lane="partition",
                number="offset",
                options=(("kafka.bootstrap.servers", "a:9092,b:9092"), ("subscribe", "t")),
            ),
        ),
        ("spark:rate,columns=timestamp AS at, value", SparkFeed(format="rate", columns="timestamp AS at, value")),
        ("push", None),
    ],
)
def test_a_feed_in_one_line(text: str, feed: object) -> None:
    assert feed_from(text) == feed


@pytest.mark.parametrize(
    ("text", "writer"),
    [
        ("jsonl:out.jsonl", JsonLinesWriter(path="out.jsonl")),
        ("parquet:dir,rows=10,every=2s", ParquetWriter(path="dir", rows=10, every_us=2_000_000)),
        ("console", ConsoleWriter()),
        ("console:table", ConsoleWriter(form="table")),
        (
            "spark:jdbc,url=jdbc:derby:db;create=true,dbtable=t",
            SparkWriter(format="jdbc", options=(("dbtable", "t"), ("url", "jdbc:derby:db;create=true"))),
        ),
        ("flight", None),
    ],
)
def test_a_writer_in_one_line(text: str, writer: object) -> None:
    assert writer_from(text) == writer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("genrator:rate=1", ("genrator", "generator")),
        ("file", ("file", "path")),
        ("file:a.csv,sped=1", ("sped", "speed")),
        ("file:a.csv,speed=fast", ("speed", "max")),
        ("file:a.csv,speed=1,speed=2", ("speed", "twice")),
        ("file:a.csv,format=xls", ("format", "csv")),
        ("generator:rate=0", ("rate", "above 0")),
        ("generator:seed=x", ("seed", "whole number")),
        ("generator:x=uniform(1)", ("uniform", "2")),
        ("generator:x=gauss(1,2)", ("gauss", "normal")),
        ("generator:x=uniform(6,1)", ("lowest",)),
        ("generator:start=soon", ("start", "2026-01-31T12:00:00Z")),
        ("generator:what", ("what", "OPTION=VALUE")),
    ],
)
def test_a_mistake_names_the_option_and_what_would_be_right(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        feed_from(text)
    assert [word for word in words if word not in str(caught.value)] == []


def problems(schema: str, feed: str, **source: object) -> list[str]:
    query = ab.Query("q")
    query.output("o", query.source("s", schema, feed=feed, **source))  # type: ignore[arg-type]
    return [str(problem) for problem in query.validate()]


@pytest.mark.parametrize(
    ("schema", "feed", "source", "words"),
    [
        ("x bigint", "generator:rat=5", {}, None),
        ("x bigint", "generator:y=uniform(1,2)", {}, "Candidates: x"),
        ("x string", "generator:x=uniform(1,2)", {}, "Use choice"),
        ("x tinyint", "generator:x=uniform(0,1000)", {}, "does not fit"),
        ("x bigint", "generator:start=2026-01-01", {}, "time column"),
        ("x bigint, t timestamp", "generator:t=choice(1)", {"time": "t"}, "Use start"),
        ("x bigint", "file:a.csv,speed=2", {}, "time column"),
        ("x bigint", "file:a.csv", {"producers": ("a", "b")}, "producer=a"),
        ("x bigint", "file:a.csv,producer=c", {"producers": ("a", "b")}, "Candidates: a, b"),
        ("x bigint", "spark:kafka,lane=partition", {"producers": ("a",)}, "Give both"),
        ("x bigint", "spark:kafka,lane=partition,number=offset", {}, "producers of the source"),
    ],
)
def test_what_does_not_fit_the_source_is_told_with_its_name(
    schema: str, feed: str, source: dict[str, object], words: str | None
) -> None:
    if words is None:
        with pytest.raises(ConfigError, match="way to make values"):
            problems(schema, feed, **source)
        return
    (problem,) = problems(schema, feed, **source)
    assert problem.startswith("s: feed: ")
    assert words in problem


def test_two_writers_to_one_file_are_refused() -> None:
    query = ab.Query("q")
    stream = query.source("s", "x bigint")
    query.output("a", stream, to=["jsonl:out.jsonl", "console"])
    query.output("b", stream, to=[ab.writers.jsonl("out.jsonl"), ab.writers.console()])
    (problem,) = query.validate()
    assert "out.jsonl" in problem.message
    assert problem.box == "b"


def test_a_feed_can_be_exchanged_by_the_name_of_its_source() -> None:
    query = ab.Query("q")
    query.output("o", query.source("s", "x bigint", feed="generator"), to="console")
    query.feed("s", "file:x.csv")
    query.write("o", [])
    diagram = query.checked()
    assert diagram.sources[0].feed == FileFeed(path="x.csv")
    assert diagram.outputs[0].to == ()
    with pytest.raises(ConfigError, match="Candidates: s"):
        query.feed("t", None)
    with pytest.raises(ConfigError, match="Candidates: o"):
        query.write("p", [])


def test_a_query_is_the_same_whatever_feeds_it() -> None:
    query = ab.Query("q")
    query.output("o", query.source("s", "x bigint", feed="generator"), to="console")
    bare = query.diagram().without_connectors()
    assert bare.boxes == (Source(name="s", schema=bare.sources[0].schema),)
    assert bare.outputs[0].to == ()


def test_a_mistake_in_yaml_is_told_with_its_place() -> None:
    boxes = "  - source: {name: s, schema: x int, feed: {file: {}}}"
    text = f"query: q\nboxes:\n{boxes}\noutputs:\n  o: {{input: s, to: csv}}\n"
    problems = ab.Query.from_yaml(text).validate()
    assert {problem.code for problem in problems} == {"bad-connector"}
    told = [str(problem) for problem in problems]
    assert len(told) == 2
    assert "boxes[0].source.feed" in told[0]
    assert "outputs.o.to" in told[1]
    assert "jsonl" in told[1]

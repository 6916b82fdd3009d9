"""Random statements over random rows: translated into boxes and run in the reference, they give what DuckDB gives.

A statement is drawn once and written twice, for streams and for whole tables: windows are ``time_bucket`` there, WITHIN
is a condition, and an as-of join is DuckDB's own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.times import SECOND
from tests.amounts import tries
from tests.unit.query.sql_runs import Rows, run

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-3, 5)), st.integers(1, 40)), max_size=14
)
HOSTS = st.sampled_from(["host", "upper(host)", "host || 'x'"])
VALUES = st.sampled_from(["{v}", "{v} + 1", "abs({v})", "coalesce({v}, 0)", "CASE WHEN {v} > 1 THEN 1 ELSE 0 END"])
AGGREGATES = st.sampled_from(
    ["count(*)", "count({v})", "sum({v})", "max({v})", "min({v})", "count(*) FILTER (WHERE {v} > 1)"]
)
CONDITIONS = st.sampled_from(["{v} > 0", "{v} IS NULL OR {v} < 3", "{h} <> 'a'", "NOT ({v} BETWEEN 0 AND 2)", "1 = 1"])


ALL_READ = "; CREATE OUTPUT pings AS SELECT host FROM ping; CREATE OUTPUT loads AS SELECT host FROM load"
"""A source that nothing reads would be told."""


@dataclass(frozen=True)
class Statement:
    """The same for streams and for tables."""

    stream: str
    batch: str


def each(text: str, value: str = "rtt", host: str = "host") -> str:
    return text.format(v=value, h=host)


@st.composite
def selections(draw: st.DrawFn) -> Statement:
    key, value, condition = draw(HOSTS), each(draw(VALUES)), each(draw(CONDITIONS))
    text = f"SELECT {key} AS k, {value} AS v FROM ping WHERE {condition}"
    if not draw(st.booleans()):
        return Statement(text + " UNION ALL SELECT host, cpu FROM load", text + " UNION ALL SELECT host, cpu FROM load")
    nested = f"SELECT v, k FROM (SELECT * FROM ({text}) AS inside WHERE v IS NOT NULL) AS t WHERE t.v >= 0"
    return Statement(nested + " UNION ALL SELECT cpu, host FROM load", nested + " UNION ALL SELECT cpu, host FROM load")


@st.composite
def windows(draw: st.DrawFn) -> Statement:
    key, condition = draw(HOSTS), each(draw(CONDITIONS))
    one, two = each(draw(AGGREGATES)), each(draw(AGGREGATES))
    size, having = draw(st.sampled_from([2, 5, 10])), draw(st.integers(0, 2))
    list_ = f"{key} AS k, {one} AS one, {one} + coalesce({two}, 0) AS both_"
    stream = f"""
        SELECT {list_}, window_start AS s, window_end AS e
        FROM TUMBLE(TABLE ping, DESCRIPTOR(at), INTERVAL '{size}' SECOND)
        WHERE {condition} GROUP BY {key}, window_start, window_end HAVING count(*) > {having}"""
    bucket = f"time_bucket(INTERVAL {size} SECOND, at)"
    batch = f"""
        SELECT {list_}, {bucket} AS s, {bucket} + INTERVAL {size} SECOND AS e FROM ping WHERE {condition}
        GROUP BY {key}, {bucket} HAVING count(*) > {having}"""
    return Statement(stream, batch)


@st.composite
def joins(draw: st.DrawFn) -> Statement:
    within, value, condition = (
        draw(st.integers(1, 9)),
        each(draw(VALUES), "p.rtt"),
        each(draw(CONDITIONS), "p.rtt", "p.host"),
    )
    list_ = f"p.host, l.host AS other, {value} AS v, l.cpu, p.at, l.seen"
    on = draw(st.sampled_from(["p.host = l.host", "p.rtt = l.cpu", "p.host = l.host AND p.rtt < l.cpu"]))
    near = f"p.at - l.seen < INTERVAL {within} SECOND AND l.seen - p.at < INTERVAL {within} SECOND"
    if draw(st.booleans()):
        stream = (
            f"SELECT {list_} FROM ping AS p JOIN load AS l ON {on} WITHIN INTERVAL '{within}' SECOND WHERE {condition}"
        )
        return Statement(stream, f"SELECT {list_} FROM ping p JOIN load l ON {on} AND {near} WHERE {condition}")
    bound = f"l.seen BETWEEN p.at - INTERVAL '{within}' SECOND AND p.at + INTERVAL '1' SECOND"
    text = f"SELECT {list_} FROM ping AS p JOIN load AS l ON {on} AND {bound} WHERE {condition}"
    return Statement(text, text)


@st.composite
def of_windows(draw: st.DrawFn) -> Statement:
    """The groups with the most rows of each window: a window of windows, joined with the windows."""
    size = draw(st.sampled_from([3, 10]))
    stream = f"""
        WITH counts AS (SELECT host, window_end AS e, count(*) AS n FROM TUMBLE(ping, at, INTERVAL '{size}' SECOND)
                        GROUP BY host, window_end),
             most AS (SELECT e, max(n) AS n FROM counts GROUP BY e)
        SELECT c.host, c.e, c.n FROM counts AS c JOIN most AS m ON c.e = m.e AND c.n = m.n"""
    batch = f"""
        WITH counts AS (
            SELECT host, time_bucket(INTERVAL {size} SECOND, at) + INTERVAL {size} SECOND AS e, count(*) AS n
            FROM ping GROUP BY ALL)
        SELECT host, e, n FROM counts QUALIFY n = max(n) OVER (PARTITION BY e)"""
    return Statement(stream, batch)


@st.composite
def lookups(draw: st.DrawFn) -> Statement:
    left = draw(st.sampled_from(["", "LEFT "]))
    text = f"SELECT p.host, p.rtt, p.at, l.cpu FROM ping p ASOF {left}JOIN load l ON p.host = l.host AND l.seen <= p.at"
    return Statement(text, text)


STATEMENTS = st.one_of(selections(), windows(), joins(), of_windows(), lookups())


@settings(max_examples=tries(50, long=150))
@given(STATEMENTS, ROWS, ROWS)
def test_a_statement_gives_what_duckdb_gives(statement: Statement, pings: list[Any], loads: list[Any]) -> None:
    ping = [{"host": host, "rtt": rtt, "at": at * SECOND} for host, rtt, at in pings]
    newest = {(host, seen): cpu for host, cpu, seen in loads}  # which of two equal times is newer, no batch can say
    load = [{"host": host, "cpu": cpu, "seen": seen * SECOND} for (host, seen), cpu in newest.items()]
    found = run(statement.stream + ALL_READ, ping=ping, load=load)["result"]
    assert _counted(found) == Counter(_batch(statement.batch, ping, load)), statement.stream


def _counted(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all statements: to open it costs more than most of them."""
    return duckdb.connect(config={"threads": 1})


def _batch(sql: str, ping: Rows, load: Rows) -> list[tuple[Any, ...]]:
    database = _database()
    for name, columns, rows in (("ping", ("host", "rtt", "at"), ping), ("load", ("host", "cpu", "seen"), load)):
        typed = f'{columns[0]} TEXT, {columns[1]} INT, "{columns[2]}" TIMESTAMP'
        database.execute(f"CREATE OR REPLACE TABLE {name} ({typed})")
        if rows:
            places = ", ".join(["(?, ?, make_timestamp(CAST(? AS BIGINT)))"] * len(rows))
            database.execute(f"INSERT INTO {name} VALUES {places}", [row[column] for row in rows for column in columns])
    result = database.execute(re.sub(r"\bat\b", '"at"', sql))  # a keyword there
    times = [index for index, column in enumerate(result.description) if "TIMESTAMP" in str(column[1]).upper()]
    return [_plain(row, times) for row in result.fetchall()]


def _plain(row: tuple[Any, ...], times: list[int]) -> tuple[Any, ...]:
    cells = list(row)
    for index in times:
        if cells[index] is not None:
            cells[index] = round((cells[index] - type(cells[index])(1970, 1, 1)).total_seconds() * SECOND)
    return tuple(int(cell) if isinstance(cell, int) else cell for cell in cells)

"""Every part of SQL that has no box is refused where it stands, with what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.errors import Problem
from tests.unit.query.sql_runs import SOURCES

WINDOW = "FROM TUMBLE(ping, at, INTERVAL '10' SECOND)"


def refusals(text: str) -> list[Problem]:
    return ab.sql(text).validate()


def refused(text: str) -> Problem:
    """The only problem of a text after two sources. ``^`` stands before the place that it names."""
    marked = f"{SOURCES}{text}"
    at = marked.index("^")
    whole = marked.replace("^", "")
    (problem,) = refusals(whole)
    line = whole[:at].count("\n") + 1
    column = at - (whole[:at].rfind("\n") + 1) + 1
    assert problem.place == f"line {line}, column {column}", str(problem)
    assert problem.remedy, "it says what to write instead"
    return problem


STATEMENTS = {
    "^DROP TABLE ping": "not a statement",
    "^INSERT INTO x SELECT host FROM ping": "rows go to outputs",
    "CREATE ^OR REPLACE VIEW v AS SELECT * FROM ping": "only a name",
    "CREATE ^TEMPORARY VIEW v AS SELECT * FROM ping": "only a name",
    "CREATE ^MATERIALIZED VIEW v AS SELECT * FROM ping": "only a name",
    "CREATE ^SINK v AS SELECT * FROM ping": "outputs have writers",
    "CREATE ^INDEX v": "no CREATE INDEX",
    "CREATE VIEW ^AS SELECT * FROM ping": "the name of the view",
    "CREATE VIEW v ^SELECT * FROM ping": "AS is expected",
    "CREATE VIEW ^ping AS SELECT * FROM load": "already exists",
    "CREATE OUTPUT o AS SELECT host FROM ping; CREATE OUTPUT ^o AS SELECT cpu FROM load": "already an output 'o'",
    "SELECT host FROM ping; ^SELECT cpu FROM load": "already an output 'result'",
    "SELECT host FROM ping extra ^words": "not expected",
}

SOURCE_STATEMENTS = {
    "CREATE SOURCE ^IF NOT EXISTS s (a INT)": "every source is new",
    "CREATE SOURCE s (a INT, ^WATERMARK FOR a AS a)": "the time of a source is an option",
    "CREATE SOURCE s (a INT ^NOT NULL)": "not checked",
    "CREATE SOURCE s (a INT ^PRIMARY KEY)": "not checked",
    "CREATE SOURCE s ^WITH (time = a)": "( is expected",
    "CREATE SOURCE s (a INT) WITH (^tme = 'a')": "no option 'tme'",
    "CREATE SOURCE s (a INT) WITH (time = a, ^time = a)": "appears twice",
    "CREATE SOURCE s (a INT) WITH (time = ^('a', 'b'))": "not a single text",
    "CREATE SOURCE s (a INT) WITH (time = ^*)": "not an option value",
    "CREATE SOURCE s (a INT) WITH (feed = ^'genrator:rate=1')": "no feed or writer 'genrator' here",
    "CREATE SOURCE s (a INT) WITH (disorder = ^INTERVAL '1' MONTH)": "has no fixed length",
    "CREATE OUTPUT o WITH (^too = 'x') AS SELECT host FROM ping": "no option 'too'",
    "CREATE OUTPUT o WITH (to = ^'jsonl') AS SELECT host FROM ping": "needs 'path'",
}

TABLE = "CREATE TABLE t (k STRING PRIMARY KEY, n INT) WITH (file = 't.csv');"

TABLES = {
    "CREATE TABLE ^IF NOT EXISTS t (k STRING)": "every table is new",
    "CREATE TABLE t (k STRING ^NOT NULL)": "not checked by a table",
    "CREATE TABLE t (k STRING ^UNIQUE)": "not checked by a table",
    "CREATE TABLE ^t (k STRING) WITH (file = 't.csv')": "No key given for the rows of 't'",
    "CREATE TABLE ^t (k STRING PRIMARY KEY)": "No location given for the rows of 't'",
    "CREATE TABLE t (k STRING PRIMARY KEY, ^PRIMARY KEY (k)) WITH (file = 't.csv')": "one PRIMARY KEY",
    "CREATE TABLE t (k STRING PRIMARY KEY) WITH (^fil = 't.csv')": "no option 'fil'",
    "CREATE TABLE t (k STRING, PRIMARY KEY ^k) WITH (file = 't.csv')": "( is expected",
    "CREATE TABLE t (k STRING PRIMARY KEY) ^AS SELECT 1": "not expected here",
    "CREATE TABLE ^ping (k STRING PRIMARY KEY) WITH (file = 't.csv')": "already exists",
    f"{TABLE} CREATE VIEW ^t AS SELECT * FROM ping": "already exists",
    "CREATE TABLE ^t (k STRING PRIMARY KEY) WITH (file = 't.csv'); SELECT host FROM ping": "Nothing reads the table",
    f"{TABLE} SELECT k FROM ^t": "can only be joined to a stream",
    f"{TABLE} SELECT host FROM ping UNION ALL SELECT k FROM ^t": "can only be joined to a stream",
    f"{TABLE} SELECT count(*) AS n FROM COUNT(^t, 2 ROWS)": "can only be joined to a stream",
    f"{TABLE} SELECT host FROM ping JOIN t ON ^rtt < n": "Nothing in `rtt < n` equals a column of 't'",
    f"{TABLE} SELECT host FROM ping LEFT JOIN t ON ^host = k AND rtt < n": "more than equalities",
    f"{TABLE} SELECT host FROM ping JOIN t ON ^host = lower(k)": "`lower(k)` is not a column of the table 't'",
    f"{TABLE} SELECT host FROM ping ^JOIN t ON host = k WITHIN INTERVAL '1' SECOND": "WITHIN: the rows of a table",
    f"{TABLE} SELECT host FROM ping ^ASOF JOIN t ON host = k": "ASOF JOIN: the rows of a table",
    f"{TABLE} SELECT host FROM ping ^JOIN t FOR SYSTEM_TIME AS OF at": "No condition given to join the table on",
    f"{TABLE} SELECT host FROM ping JOIN t FOR SYSTEM_TIME AS OF ^rtt ON host = k": "not the time of the left side",
    f"{TABLE} SELECT host FROM ping AS t JOIN ^t ON t.host = k": "Two streams are called 't'",
    f"{TABLE} SELECT host FROM ping JOIN t ON host = ^name": "no column 'name'",
    f"{TABLE} SELECT host FROM ping JOIN t ON t.n = ^t.host": "no column 'host'",
}

CLAUSES = {
    "SELECT host FROM ping ^ORDER BY host": "never ends",
    "SELECT host FROM ping ^SORT BY host": "never ends",
    "SELECT host FROM ping ^CLUSTER BY host": "Spark decides how rows are distributed",
    "SELECT host FROM ping ^DISTRIBUTE BY host": "Spark decides how rows are distributed",
    "SELECT host FROM ping ^LIMIT 10": "no first rows",
    "SELECT host FROM ping ^OFFSET 10": "no first rows",
    "SELECT host FROM ping ^FETCH FIRST 3 ROWS": "no first rows",
    "SELECT host FROM ping ^QUALIFY 1 = 1": "no window functions",
    "SELECT host FROM ping ^WINDOW w AS (x)": "no window functions",
    "SELECT host FROM ping ^LATERAL VIEW explode(x) t": "several tuples from one",
    "SELECT host FROM ping ^TABLESAMPLE (10 PERCENT)": "the same on every replica",
    "SELECT host FROM ping ^PIVOT (x)": "no box does this",
    "SELECT host FROM ping ^UNPIVOT (x)": "no box does this",
    "SELECT host FROM ping ^MATCH_RECOGNIZE (x)": "no box does this",
    "SELECT host FROM ping ^EMIT CHANGES": "emitted once",
    "SELECT host FROM ping ^EXCEPT SELECT host FROM load": "all rows ever seen",
    "SELECT host FROM ping ^MINUS SELECT host FROM load": "all rows ever seen",
    "SELECT host FROM ping ^INTERSECT SELECT host FROM load": "all rows ever seen",
    "SELECT host FROM ping ^UNION SELECT host FROM load": "keeps each row once",
    "^WITH RECURSIVE x AS (SELECT host FROM ping) SELECT * FROM x": "no loops",
    "SELECT * ^EXCEPT (host) FROM ping": "those you name",
    "SELECT ping.* ^REPLACE (1 AS host) FROM ping": "those you name",
    "SELECT host^": "where FROM is expected",
    "SELECT host ^WHERE rtt > 1": "where FROM is expected",
    "SELECT 1 AS one FROM ^WHERE rtt > 1": "a source, a view",
    "SELECT host FROM ping^.late": "not expected",
}

EXPRESSIONS = {
    "SELECT host + ^FROM ping": "something is missing",
    "SELECT max(host ^FROM ping": "expecting )",
    "SELECT ^rtt + 1 FROM ping": "has no name",
    "SELECT ^rt FROM ping": "no column 'rt'",
    "SELECT host FROM ping WHERE ^p.rtt > 1": "No stream is called 'p'",
    "SELECT host FROM ping WHERE ^rtt IN (SELECT cpu FROM load)": "A subquery in an expression",
    "SELECT ^sum(rtt) OVER (PARTITION BY host) AS s FROM ping": "no window functions",
    "SELECT host FROM ping WHERE ^a.ping.host = 'x'": "too many parts",
    f"SELECT ^count(ping.*) AS n {WINDOW} GROUP BY window_end": "uses `*` in an expression",
    "SELECT host FROM ^pong": "no source or view 'pong'",
    "SELECT host FROM ^slow; CREATE VIEW slow AS SELECT * FROM ping": "no source or view 'slow'",
    "SELECT host FROM ping WHERE host = ^'x": "not closed",
}

WINDOWS = {
    "SELECT host, count(*) AS n FROM ping ^GROUP BY host": "grouped in windows",
    "^SELECT count(*) AS n FROM ping": "grouped in windows",
    f"SELECT host {WINDOW} ^GROUP BY host": "does not name the window",
    f"^SELECT count(*) AS n {WINDOW}": "does not name the window",
    f"SELECT ^* {WINDOW} GROUP BY host, window_end": "not grouped",
    f"SELECT ^rtt {WINDOW} GROUP BY host, window_end": "neither in GROUP BY nor in an aggregate",
    f"SELECT host {WINDOW} GROUP BY host, window_end HAVING ^rtt > 1": "neither in GROUP BY nor in an aggregate",
    f"SELECT ^count(*) {WINDOW} GROUP BY window_end": "has no name",
    f"SELECT max(^window_end) AS m {WINDOW} GROUP BY window_end": "one value for the whole group",
    f"SELECT host {WINDOW} WHERE ^window_end > _stime GROUP BY host, window_end": "when the window is over",
    f"SELECT host {WINDOW} WHERE ^max(rtt) > 1 GROUP BY host, window_end": "before the rows are grouped",
    f"SELECT host {WINDOW} GROUP BY ^1, window_end": "does not name a column",
    f"SELECT host {WINDOW} GROUP BY ^max(rtt), window_end": "cannot be grouped by an aggregate",
    f"SELECT host {WINDOW} GROUP BY ^ROLLUP (host)": "names no columns",
    f"SELECT host {WINDOW} GROUP BY ^ALL": "names no columns",
    "SELECT host FROM ping GROUP BY host, ^TUMBLE(at, INTERVAL '1' SECOND)": "belongs in FROM",
    "SELECT host FROM ^WINDOWED(ping, at, INTERVAL '1' SECOND)": "no window WINDOWED",
    "SELECT host FROM TUMBLE(ping, ^INTERVAL '1' SECOND)": "where the time column is expected",
    "SELECT host FROM TUMBLE(ping, at, ^10)": "where a duration is expected",
    "SELECT host FROM TUMBLE(ping, at, INTERVAL ^x SECOND)": "is not a duration",
    "SELECT host FROM TUMBLE(ping, at, ^INTERVAL 'x' SECOND)": "not a duration",
    "SELECT host FROM TUMBLE(ping, at, ^INTERVAL '1' YEAR)": "has no fixed length",
    "SELECT host FROM TUMBLE(ping, at, INTERVAL '1' HOUR^, INTERVAL '1' MINUTE)": "one argument too many",
    "SELECT host FROM HOP(ping, at, INTERVAL '1' HOUR^)": "where , is expected",
    "SELECT host FROM TUMBLE(ping PARTITION BY ^host, at, INTERVAL '1' HOUR)": "takes no PARTITION BY",
    "SELECT host FROM TUMBLE(ping, ^rtt, INTERVAL '1' HOUR) GROUP BY host, window_end": "not the time of ping",
    "SELECT host FROM TUMBLE(ping, ^moment, INTERVAL '1' HOUR) GROUP BY host, window_end": "not the time of ping",
    "SELECT host FROM COUNT(ping, ^INTERVAL '1' HOUR) GROUP BY host": "not a number of tuples",
    "SELECT ^window_end FROM COUNT(ping, 3) GROUP BY host": "has no window_end",
    f"SELECT n FROM (SELECT count(*) AS n {WINDOW} GROUP BY window_end) ^GROUP BY n": "grouped in windows",
    "SELECT host FROM SESSION(ping PARTITION BY ^host, at, INTERVAL '1' HOUR) GROUP BY window_end": "does not name it",
    "SELECT host FROM SESSION(ping PARTITION BY ^host, at, INTERVAL '1' HOUR) GROUP BY host, rtt, window_end": "differ",
    "SELECT host FROM SESSION(ping PARTITION BY ^hst, at, INTERVAL '1' HOUR) GROUP BY host, window_end": "no column",
    "SELECT ^DISTINCT host FROM ping": "all rows ever seen",
    "SELECT DISTINCT ON (^upper(host)) WITHIN INTERVAL '1' HOUR host FROM ping": "not a column of the SELECT",
    "SELECT DISTINCT ON (^rtt) WITHIN INTERVAL '1' HOUR host FROM ping": "no column 'rtt'",
    "SELECT DISTINCT WITHIN ^host FROM ping": "where a duration is expected",
    "SELECT p.host FROM ^TUMBLE(ping, at, INTERVAL '1' HOUR) p JOIN load ON p.host = load.host": "needs a GROUP BY",
    "SELECT p.host FROM ping p JOIN ^TUMBLE(load, seen, INTERVAL '1' HOUR) l ON p.host = l.host": "needs a GROUP BY",
}

JOINS = {
    "SELECT cpu FROM ping^, load": "pair every row with every other",
    "SELECT cpu FROM ping ^CROSS JOIN load": "pairs every row",
    "SELECT cpu FROM ping ^NATURAL JOIN load": "hides which columns",
    "SELECT cpu FROM ping ^RIGHT JOIN load ON 1 = 1": "never come",
    "SELECT cpu FROM ping ^FULL JOIN load ON 1 = 1": "never come",
    "SELECT cpu FROM ping ^SEMI JOIN load ON 1 = 1": "has no box",
    "SELECT cpu FROM ping ^ANTI JOIN load ON 1 = 1": "never come",
    "SELECT cpu FROM ping ^LEFT SEMI JOIN load ON 1 = 1": "has no box",
    "SELECT cpu FROM ping ^LEFT ANTI JOIN load ON 1 = 1": "never come",
    "SELECT cpu FROM ping ^LEFT JOIN load ON ping.host = load.host": "never come",
    "SELECT cpu FROM ping JOIN load FOR ^VERSION AS OF 3 ON 1 = 1": "SYSTEM_TIME is expected",
    "SELECT cpu FROM ping JOIN load FOR SYSTEM_TIME AS OF ^rtt ON ping.host = load.host": "not the time of the left",
    "SELECT cpu FROM ping JOIN load FOR SYSTEM_TIME AS OF ^seen ON ping.host = load.host": "no column 'seen'",
    "SELECT cpu FROM ping INNER ^load": "where JOIN is expected",
    "SELECT cpu FROM ping JOIN load ^USING (host)": "hides which columns",
    "SELECT cpu FROM ping JOIN load ^WITHIN INTERVAL '1' SECOND": "where ON is expected",
    "SELECT cpu FROM ping ^JOIN load ON ping.host = load.host": "how far apart in time",
    "SELECT cpu FROM ping ^JOIN load ON ping.host = load.host AND at > seen": "how far apart in time",
    "SELECT ^host FROM ping JOIN load ON ping.host = load.host WITHIN INTERVAL '1' SECOND": "could be a column of",
    "SELECT ^* FROM ping JOIN load ON ping.host = load.host WITHIN INTERVAL '1' SECOND": "two columns 'host'",
    "SELECT rtt FROM ping JOIN ^ping ON 1 = 1 WITHIN INTERVAL '1' SECOND": "Two streams are called 'ping'",
    "SELECT rtt FROM (SELECT * FROM ping) JOIN ^(SELECT * FROM load) ON 1 = 1": "has no name",
    "SELECT rtt FROM ping JOIN load ON cpu = rtt WITHIN INTERVAL '1' SECOND WHERE ^ping._stime = at": "is gone",
    "SELECT host FROM ping UNION ALL ^SELECT host, cpu FROM load": "2 columns",
}

EVERY = {**STATEMENTS, **SOURCE_STATEMENTS, **TABLES, **CLAUSES, **EXPRESSIONS, **WINDOWS, **JOINS}


@pytest.mark.parametrize(("text", "says"), EVERY.items())
def test_what_has_no_box_is_refused_where_it_stands(text: str, says: str) -> None:
    assert says in refused(text).message


def test_a_text_without_statements_is_refused() -> None:
    (problem,) = refusals("-- nothing yet\n;")
    assert (problem.code, problem.place) == ("refused-sql", "line 1, column 1")


def test_every_statement_that_is_wrong_is_told_and_what_reads_it_is_not() -> None:
    text = """CREATE SOURCE s (a INT);
CREATE VIEW v AS SELECT b FROM s;
CREATE OUTPUT o AS SELECT b FROM v;
CREATE OUTPUT p AS SELECT a FROM s LIMIT 3;"""
    assert [(problem.code, problem.place) for problem in refusals(text)] == [
        ("unknown-column", "line 2, column 25"),
        ("refused-sql", "line 4, column 36"),
    ]


def test_a_statement_that_is_nested_too_deeply_is_refused() -> None:
    (problem,) = refusals("CREATE SOURCE s (a INT); SELECT " + "(" * 5_000 + "a" + ")" * 5_000 + " AS a FROM s")
    assert problem.message == "The statement is nested too deeply."


WORDS = """SELECT DISTINCT WITHIN INTERVAL '10' SECOND host , rtt at * count(*) max( ) ( FROM ping load JOIN ON = AND
    WHERE GROUP BY window_start window_end TUMBLE( HOP( SESSION( COUNT( TABLE DESCRIPTOR( HAVING UNION ALL AS x . ASOF
    LEFT WITH CREATE VIEW OUTPUT SOURCE v ; 1 'text' `x y` CASE WHEN THEN END OVER ORDER LIMIT IN NOT _stime + - < FOR
    SYSTEM_TIME OF PARTITION 3 ROWS BETWEEN to time feed STRING , ,""".split()
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(
        [
            "SELECT host FROM ping",
            "FROM TUMBLE(ping, at, INTERVAL '1' SECOND) GROUP BY window_end",
            "JOIN load ON ping.host = load.host WITHIN INTERVAL '1' SECOND",
            "CREATE OUTPUT o AS",
        ]
    ),
)


@given(st.lists(PIECES, max_size=25))
def test_whatever_is_written_is_a_query_or_has_a_place_where_it_is_wrong(pieces: list[str]) -> None:
    problems = refusals(SOURCES + " ".join(pieces))
    told_anyway = ("no-output", "unused-box")  # of sources that nothing reads, and of no place
    assert all(problem.place for problem in problems if problem.code not in told_anyway), problems


FOUND_LATER = {
    "SELECT rand() AS r FROM s": ("refused-function", "line 2, column 1"),
    "SELECT a FROM s\nWHERE a": ("not-boolean", "line 3, column 7"),
    "SELECT count(DISTINCT a) AS n FROM TUMBLE(s, _stime, INTERVAL '1' SECOND)\nGROUP BY window_end": (
        "refused-function",
        "line 3, column 1",
    ),
    "SELECT a FROM HOP(s, _stime, INTERVAL '2' SECOND, INTERVAL '1' SECOND)\nGROUP BY a, window_end": (
        "bad-window",
        "line 3, column 1",
    ),
    "SELECT a FROM s\nUNION ALL\nSELECT CAST(a AS STRING) AS a FROM s": ("union-type-clash", "line 2, column 1"),
    "CREATE VIEW unused AS\nSELECT a + 1 AS b FROM s; SELECT a FROM s": ("unused-box", "line 3, column 1"),
    "CREATE SOURCE r (b INT); SELECT a, b FROM s\nASOF JOIN r ON a > b": ("not-an-equality", "line 3, column 1"),
    "CREATE OUTPUT s AS SELECT a FROM s": ("duplicate-name", "line 1, column 15"),
}


@pytest.mark.parametrize("text", FOUND_LATER)
def test_what_validation_refuses_has_its_place_too(text: str) -> None:
    problems = refusals(f"CREATE SOURCE s (a INT);\n{text}")
    assert [(problem.code, problem.place) for problem in problems] == [FOUND_LATER[text]]


OUT_OF_RANGE = {
    "SELECT count(*) AS n FROM TUMBLE(ping, at, {}) GROUP BY window_end": "window",
    "SELECT count(*) AS n FROM HOP(ping, at, {}, INTERVAL '10' SECOND) GROUP BY window_end": "every",
    "SELECT count(*) AS n FROM HOP(ping, at, INTERVAL '10' SECOND, {}) GROUP BY window_end": "window",
    "SELECT count(*) AS n FROM SESSION(ping, at, {}) GROUP BY window_end": "gap",
    "SELECT DISTINCT WITHIN {} host FROM ping": "horizon",
    "SELECT cpu FROM ping JOIN load ON ping.host = load.host WITHIN {}": "within",
    "SELECT cpu FROM ping ASOF JOIN load ON ping.host = load.host WITHIN {}": "within",
}


@pytest.mark.parametrize(("text", "field"), OUT_OF_RANGE.items())
def test_a_duration_that_no_box_can_have_is_told_with_its_place(text: str, field: str) -> None:
    for duration in ("INTERVAL '0' SECOND", "INTERVAL '0.0005' SECOND"):
        found = [
            problem
            for problem in refusals(f"{SOURCES}{text.format(duration)}")
            if problem.message.startswith(f"{field}: ")
        ]
        assert found[0].message.endswith("is not a positive number of whole milliseconds.")
        assert found[0].remedy == "Spark keeps time in milliseconds: write 1ms or a multiple of it."
        assert found[0].place


@pytest.mark.parametrize(
    ("window", "message", "remedy"),
    [
        ("COUNT(ping, 0 ROWS)", "rows: 0 is not a number of tuples.", "Write 1 or more."),
        (
            "COUNT(ping, 3 ROWS, 2 ROWS)",
            "every_rows: 3 is more than the 2 of the window.",
            "Tuples between two windows would be lost: lower it.",
        ),
    ],
)
def test_a_number_of_tuples_that_no_window_can_have_is_told(window: str, message: str, remedy: str) -> None:
    problems = refusals(f"{SOURCES}SELECT host, count(*) AS n FROM {window} GROUP BY host")
    assert [(problem.message, problem.remedy) for problem in problems if problem.code == "bad-window"] == [
        (message, remedy)
    ]

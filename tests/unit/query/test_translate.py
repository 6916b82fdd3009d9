"""SQL becomes the boxes that a person would have drawn, and these compute what the SQL says."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.model.times import SECOND
from anabranch.query.boxes import Aggregate, Box, Column, Filter, Join, Latest, Map, Table, Union
from anabranch.query.connectors import GeneratorFeed, JsonLinesWriter
from anabranch.query.files import load
from anabranch.reference.lookups import with_rows
from tests.unit.query.sql_runs import SOURCES, Rows, loads, only, pings, results, run, same

UNUSED = "CREATE OUTPUT unused AS SELECT host FROM load;"


def boxes(text: str, kind: type[Box]) -> list[Box]:
    return [box for box in ab.sql(SOURCES + text).checked().boxes if isinstance(box, kind)]


def with_load(text: str) -> str:
    """The text of an output over pings; a source that nobody reads would be told."""
    return f"{text};{UNUSED}"


# --- sources and outputs --------------------------------------------------------------------------------------------


def test_a_source_has_all_that_a_source_can_have() -> None:
    text = """
        CREATE SOURCE ping (source STRING, rtt_ms DOUBLE, cost DECIMAL(10, 2), at TIMESTAMP) WITH (
            time = 'at', disorder = '2s', silence = INTERVAL '1' MINUTE, horizon = '1h',
            producers = ('agent1', 'agent2'),
            feed = 'generator:rate=10,seed=7,producer=agent1,rtt_ms=uniform(1,6)'
        );
        CREATE OUTPUT all_pings WITH (to = 'jsonl:pings.jsonl') AS SELECT * FROM ping;
    """
    query = ab.Query("sql")
    ping = query.source(
        "ping",
        "source string, rtt_ms double, cost decimal(10,2), at timestamp",
        time="at",
        disorder="2s",
        silence="1m",
        horizon="1h",
        producers=("agent1", "agent2"),
        feed=ab.feeds.generator(rate=10, seed=7, producer="agent1", columns={"rtt_ms": "uniform(1,6)"}),
    )
    query.output("all_pings", ping, to=ab.writers.jsonl("pings.jsonl"))
    assert ab.sql(text).checked() == query.checked()


def test_an_idle_source_follows_the_clock_after_the_time_it_says() -> None:
    text = "CREATE SOURCE s (a INT, at TIMESTAMP) WITH (time = at, idle = '30s'); SELECT * FROM s"
    (source,) = ab.sql(text).checked().sources
    assert source.idle_us == 30 * SECOND


def test_a_select_by_itself_is_the_output_result() -> None:
    assert [output.name for output in ab.sql("CREATE SOURCE s (a INT); SELECT a FROM s").checked().outputs] == [
        "result"
    ]


def test_an_output_may_have_several_writers() -> None:
    text = "CREATE SOURCE s (a INT); CREATE OUTPUT o WITH (to = ('jsonl:a.jsonl', 'console')) AS SELECT a FROM s"
    (output,) = ab.sql(text).checked().outputs
    assert output.to[0] == JsonLinesWriter(path="a.jsonl")
    assert len(output.to) == 2


def test_the_last_box_of_a_view_has_its_name() -> None:
    query = ab.sql("CREATE SOURCE s (a INT); CREATE VIEW big AS SELECT a FROM s WHERE a > 3; SELECT a FROM big")
    assert isinstance(query.checked().box("big"), Filter)


def test_an_output_of_a_view_may_have_its_name() -> None:
    text = (
        "CREATE SOURCE s (a INT); CREATE VIEW big AS SELECT a + 1 AS a FROM s; CREATE OUTPUT big AS SELECT * FROM big"
    )
    diagram = ab.sql(text).checked()
    assert [output.input.box for output in diagram.outputs] == ["big"]
    assert [type(box) for box in diagram.boxes[1:]] == [Map]


def test_equal_parts_of_two_statements_are_one_box() -> None:
    counts = (
        "SELECT count(*) AS n, window_end AS t FROM TUMBLE(TABLE ping, at, INTERVAL '1' SECOND) GROUP BY window_end"
    )
    text = with_load(f"CREATE OUTPUT a AS SELECT n FROM ({counts}); CREATE OUTPUT b AS SELECT t FROM ({counts})")
    assert len(boxes(text, Aggregate)) == 1


# --- SELECT and WHERE -----------------------------------------------------------------------------------------------


def test_select_and_where() -> None:
    found = only(
        "SELECT host AS who, rtt * 2 AS twice FROM ping WHERE rtt > 5 UNION ALL SELECT host, cpu FROM load",
        ping=pings(("a", 5, 1), ("b", 6, 2)),
        load=loads(("c", 7, 1)),
    )
    assert same(found, {"who": "b", "twice": 12}, {"who": "c", "twice": 7})


def test_a_star_is_all_columns_and_makes_no_box() -> None:
    for star in ("*", "ping.*"):
        found = boxes(with_load(f"CREATE OUTPUT o AS SELECT {star} FROM ping"), Map)
        assert [box.name for box in found] == ["unused"]


def test_a_prefix_is_taken_off_and_all_other_text_stays() -> None:
    (box,) = (
        box
        for box in boxes(with_load("CREATE OUTPUT o AS SELECT upper( p.host ) AS h, /* why */ p.rtt FROM ping p"), Map)
        if box.name == "o"
    )
    assert isinstance(box, Map)
    assert box.columns == "upper( host ) AS h, rtt"


def test_with_names_queries_within_a_statement() -> None:
    text = """WITH slow AS (SELECT * FROM ping WHERE rtt > 5), fast AS (SELECT host FROM slow WHERE rtt < 9)
              SELECT * FROM fast"""
    assert same(run(with_load(text), ping=pings(("a", 5, 1), ("b", 6, 2), ("c", 9, 3)))["result"], {"host": "b"})


def test_union_all_renames_by_position() -> None:
    found = only(
        "SELECT host, rtt AS value FROM ping UNION ALL SELECT lower(host), cpu FROM load",
        ping=pings(("a", 1, 1)),
        load=loads(("b", 2, 1)),
    )
    assert same(found, {"host": "a", "value": 1}, {"host": "b", "value": 2})
    assert len(boxes("SELECT host, rtt AS v FROM ping UNION ALL (SELECT host, cpu FROM load)", Union)) == 1


# --- windows --------------------------------------------------------------------------------------------------------

PINGS = pings(("a", 1, 1), ("a", 2, 4), ("b", 3, 9), ("a", 4, 10), ("a", 5, 11))

FORMS = {
    "plain": "TUMBLE(ping, at, INTERVAL '10' SECOND)",
    "table": "TUMBLE(TABLE ping, DESCRIPTOR(at), INTERVAL '10' SECOND)",
    "wrapped": "TABLE(TUMBLE(TABLE ping, DESCRIPTOR(at), INTERVAL 10 SECONDS))",
    "time": "TUMBLE(ping, _stime, INTERVAL '10s')",
    "hop": "HOP(ping, at, INTERVAL '10 seconds', INTERVAL '10 seconds')",
    "nested": "TUMBLE((SELECT * FROM ping WHERE rtt > 0), at, INTERVAL '10' SECOND)",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_window_has_these_forms(form: str) -> None:
    text = f"""SELECT host, window_start AS s, window_end AS e, count(*) AS n
               FROM {form} GROUP BY host, window_start, window_end"""
    tens = [0, 10 * SECOND, 20 * SECOND]
    assert same(
        run(with_load(text), ping=PINGS)["result"],
        {"host": "a", "s": tens[0], "e": tens[1], "n": 2},
        {"host": "b", "s": tens[0], "e": tens[1], "n": 1},
        {"host": "a", "s": tens[1], "e": tens[2], "n": 2},
    )


def test_hopping_windows_begin_as_often_as_the_first_duration_says() -> None:
    text = """SELECT window_end AS e, sum(rtt) AS total
              FROM HOP(ping, at, INTERVAL '5' SECOND, INTERVAL '10' SECOND) GROUP BY window_end"""
    found = run(with_load(text), ping=PINGS)["result"]
    assert same(found, *({"e": e * SECOND, "total": n} for e, n in ((5, 3), (10, 6), (15, 12), (20, 9))))


def test_windows_of_tuples() -> None:
    text = "SELECT host, sum(rtt) AS total FROM COUNT(TABLE ping, 2 ROWS) GROUP BY host"
    found = run(with_load(text), ping=PINGS)["result"]
    assert same(found, {"host": "a", "total": 3}, {"host": "a", "total": 9})
    text = "SELECT sum(rtt) AS total FROM COUNT(ping, 1, 3)"
    assert same(run(with_load(text), ping=PINGS)["result"], {"total": 6}, {"total": 9}, {"total": 12})


SESSIONS = {
    "plain": "SESSION(ping, at, INTERVAL '5' SECOND)",
    "partitioned": "TABLE(SESSION(TABLE ping PARTITION BY host, DESCRIPTOR(at), INTERVAL '5' SECOND))",
    "by stream time": "SESSION((SELECT * FROM ping), _stime, INTERVAL '5' SECOND)",
}


@pytest.mark.parametrize("form", SESSIONS.values(), ids=SESSIONS)
def test_sessions(form: str) -> None:
    text = f"""SELECT host, window_start, window_end, sum(rtt) AS total
               FROM {form} GROUP BY host, window_start, window_end HAVING window_start < window_end"""
    assert same(
        run(with_load(text), ping=PINGS)["result"],
        {"host": "a", "window_start": SECOND, "window_end": 9 * SECOND, "total": 3},
        {"host": "a", "window_start": 10 * SECOND, "window_end": 16 * SECOND, "total": 9},
        {"host": "b", "window_start": 9 * SECOND, "window_end": 14 * SECOND, "total": 3},
    )


def test_distinct_within_a_time() -> None:
    text = "SELECT DISTINCT WITHIN INTERVAL '9' SECOND host FROM ping"
    assert same(run(with_load(text), ping=PINGS)["result"], {"host": "a"}, {"host": "b"}, {"host": "a"})
    text = "SELECT DISTINCT ON (host) WITHIN INTERVAL '1' MINUTE host, rtt AS first_rtt FROM ping"
    found = run(with_load(text), ping=PINGS)["result"]
    assert same(found, {"host": "a", "first_rtt": 1}, {"host": "b", "first_rtt": 3})


def test_keys_aggregates_and_having_may_be_expressions() -> None:
    text = """SELECT upper(host) AS big, max(rtt) - min(rtt) AS spread, concat(upper(host), '!') AS loud, window_end
              FROM TUMBLE(ping, at, INTERVAL '10' SECOND)
              GROUP BY upper(host), window_start, window_end HAVING count(*) > 1 AND spread >= 1"""
    made = [{"big": "A", "spread": 1, "loud": "A!", "window_end": end * SECOND} for end in (10, 20)]
    assert same(run(with_load(text), ping=PINGS)["result"], *made)


def test_group_by_may_name_what_select_computes() -> None:
    text = "SELECT rtt % 2 AS odd, count(*) AS n FROM TUMBLE(ping, at, INTERVAL '20' SECOND) GROUP BY odd, window_end"
    assert same(run(with_load(text), ping=PINGS)["result"], {"odd": 1, "n": 3}, {"odd": 0, "n": 2})


def test_an_aggregate_may_have_the_name_of_its_argument() -> None:
    text = """SELECT max(rtt) AS rtt, 10 * max(rtt) + count(*) AS other
              FROM TUMBLE(ping, at, INTERVAL '20' SECOND) GROUP BY window_end HAVING rtt > 4"""
    assert same(run(with_load(text), ping=PINGS)["result"], {"rtt": 5, "other": 55})


def test_a_group_without_aggregates_is_one_row() -> None:
    text = "SELECT host FROM TUMBLE(ping, at, INTERVAL '20' SECOND) GROUP BY host, window_end"
    assert same(run(with_load(text), ping=PINGS)["result"], {"host": "a"}, {"host": "b"})


def test_results_of_windows_may_be_grouped_by_their_window_again() -> None:
    text = """SELECT e, max(n) AS most, count(*) AS hosts FROM (
                SELECT host, window_end AS e, count(*) AS n
                FROM TUMBLE(ping, at, INTERVAL '10' SECOND) GROUP BY host, window_end)
              GROUP BY e"""
    found = run(with_load(text), ping=PINGS)["result"]
    assert same(found, {"e": 10 * SECOND, "most": 2, "hosts": 2}, {"e": 20 * SECOND, "most": 2, "hosts": 1})


# --- joins ----------------------------------------------------------------------------------------------------------

LOADS = loads(("a", 50, 2), ("a", 60, 12), ("b", 70, 30))


def test_a_join_within_a_time() -> None:
    text = "SELECT p.host, p.rtt, l.cpu FROM ping AS p JOIN load AS l ON p.host = l.host WITHIN INTERVAL '2' SECOND"
    assert same(
        only(text, ping=PINGS, load=LOADS),
        {"host": "a", "rtt": 1, "cpu": 50},
        {"host": "a", "rtt": 5, "cpu": 60},
    )


def test_a_join_keeps_only_the_columns_that_are_read() -> None:
    text = "SELECT l.cpu FROM ping AS p JOIN load AS l ON p.host = l.host WITHIN INTERVAL '2' SECOND"
    columns = [box.columns for box in boxes(text, Map) if isinstance(box, Map)]
    assert columns == ["host", "host AS l_host, cpu", "cpu"]


def test_a_stream_may_be_joined_with_itself() -> None:
    text = with_load(
        """SELECT a.rtt AS one, b.rtt AS two FROM ping a
           JOIN ping b ON a.host = b.host AND a.rtt < b.rtt WITHIN INTERVAL '4' SECOND"""
    )
    assert same(run(text, ping=PINGS)["result"], {"one": 1, "two": 2}, {"one": 4, "two": 5})


def test_three_streams_are_joined_from_left_to_right() -> None:
    text = """SELECT a.rtt, b.cpu AS one, c.cpu AS two FROM ping a
              JOIN load b ON a.host = b.host WITHIN INTERVAL '2' SECOND
              INNER JOIN load c ON c.host = b.host AND c.cpu > b.cpu WITHIN INTERVAL '11' SECOND WHERE a.rtt < 9"""
    assert same(only(text, ping=PINGS, load=LOADS), {"rtt": 1, "one": 50, "two": 60})


BOUNDS = {
    "a.at = b.seen": "1ms",
    "b.seen BETWEEN a.at AND a.at + INTERVAL '3' SECOND": "3001ms",
    "b.seen BETWEEN a.at - INTERVAL '5' SECOND AND (a.at + INTERVAL '3' SECOND)": "5001ms",
    "a.at <= b.seen AND a.at > b.seen - INTERVAL '1' MINUTE": "60001ms",
    "b.seen - INTERVAL '10' MILLISECOND >= a.at AND (b.seen < a.at + INTERVAL '0.5' SECOND)": "501ms",
}


@pytest.mark.parametrize(("condition", "within"), BOUNDS.items())
@pytest.mark.parametrize("clause", ["AND", "WHERE"])
def test_how_far_apart_a_pair_may_be_follows_from_conditions_on_time(condition: str, within: str, clause: str) -> None:
    text = f"SELECT a.rtt, b.cpu FROM ping a JOIN load b ON a.host = b.host {clause} {condition}"
    (join,) = boxes(text, Join)
    assert isinstance(join, Join)
    assert f"{join.within_us // 1000}ms" == within


def test_windows_may_be_joined_by_their_ends() -> None:
    text = """
        CREATE VIEW pings AS SELECT host, window_start AS s, window_end AS e, count(*) AS n
          FROM TUMBLE(ping, at, INTERVAL '10' SECOND) GROUP BY host, window_start, window_end;
        CREATE VIEW most AS SELECT s, e, max(n) AS n FROM pings GROUP BY s, e;
        SELECT pings.host, pings.e FROM pings JOIN most ON pings.s = most.s AND pings.e = most.e AND pings.n = most.n
    """
    assert same(
        run(with_load(text), ping=PINGS)["result"], {"host": "a", "e": 10 * SECOND}, {"host": "a", "e": 20 * SECOND}
    )
    (join,) = boxes(with_load(text), Join)
    assert isinstance(join, Join)
    assert join.within_us == 2_000, "the maximum comes a millisecond after what it is the maximum of"


def test_what_is_joined_by_its_time_has_a_time_for_a_window() -> None:
    text = """
        CREATE VIEW pairs AS SELECT p.host, p.at AS t FROM ping p
          JOIN load l ON p.host = l.host AND p.at BETWEEN l.seen AND l.seen + INTERVAL '5' SECOND;
        SELECT count(*) AS n FROM TUMBLE(pairs, t, INTERVAL '10' SECOND) GROUP BY window_end
    """
    assert same(only(text, ping=PINGS, load=LOADS), {"n": 1})


AS_OF = {
    "asof": "p ASOF JOIN load l ON p.host = l.host",
    "a condition that says the same": "p ASOF JOIN load l ON p.host = l.host AND l.seen <= p.at",
    "the other way round": "p ASOF JOIN load l ON p.at >= l.seen AND l.host = p.host",
    "system time": "p JOIN load FOR SYSTEM_TIME AS OF p.at AS l ON p.host = l.host",
    "stream time": "p JOIN load FOR SYSTEM_TIME AS OF _stime AS l ON p.host = l.host",
}
FOUND = [{"host": "a", "rtt": 2, "cpu": 50}, {"host": "a", "rtt": 4, "cpu": 50}, {"host": "a", "rtt": 5, "cpu": 50}]
NOT_FOUND = [{"host": "a", "rtt": 1, "cpu": None}, {"host": "b", "rtt": 3, "cpu": None}]


@pytest.mark.parametrize("form", AS_OF.values(), ids=AS_OF)
def test_as_of_joins(form: str) -> None:
    text = f"SELECT p.host, p.rtt, l.cpu FROM ping {form}"
    assert same(only(text, ping=PINGS, load=LOADS), *FOUND)
    (box,) = boxes(text, Latest)
    assert isinstance(box, Latest)
    assert box.on is not None
    assert box.on.count("=") == 1, "that it is not later is what the box does"


@pytest.mark.parametrize("form", ["LEFT ASOF JOIN", "ASOF LEFT JOIN", "LEFT OUTER ASOF JOIN"])
def test_as_of_joins_that_keep_what_finds_nothing(form: str) -> None:
    text = f"SELECT p.host, p.rtt, l.cpu FROM ping p {form} load l ON p.host = l.host"
    assert same(only(text, ping=PINGS, load=LOADS), *FOUND, *NOT_FOUND)


def test_as_of_joins_without_a_key_or_with_an_age() -> None:
    assert len(only("SELECT rtt, cpu FROM ping ASOF JOIN load", ping=PINGS, load=LOADS)) == 4
    text = "SELECT rtt, cpu FROM ping p ASOF JOIN load l ON p.host = l.host WITHIN INTERVAL '5' SECOND"
    assert same(only(text, ping=PINGS, load=LOADS), {"rtt": 2, "cpu": 50})


def test_what_an_as_of_join_makes_has_the_time_of_its_left() -> None:
    text = """WITH known AS (SELECT p.at, l.cpu FROM ping p ASOF JOIN load l ON p.host = l.host)
              SELECT window_end, count(*) AS n FROM TUMBLE(known, at, INTERVAL '10' SECOND) GROUP BY window_end"""
    made = [{"window_end": 10 * SECOND, "n": 1}, {"window_end": 20 * SECOND, "n": 2}]
    assert same(only(text, ping=PINGS, load=LOADS), *made)


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_is_a_query_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "slow_paths.sql").write_text(
        "CREATE SOURCE s (a INT) WITH (feed = 'generator:rate=5'); SELECT a FROM s;"
    )
    query = load(tmp_path / "slow_paths.sql")
    assert query.name == "slow_paths"
    assert query.checked().sources[0].feed == GeneratorFeed(rate=5.0)


def test_a_problem_that_validation_finds_has_its_place() -> None:
    text = "CREATE SOURCE s (a INT);\nSELECT a\nFROM s\nWHERE a + 1"
    (problem,) = ab.sql(text).validate()
    assert (problem.code, problem.place) == ("not-boolean", "line 4, column 7")
    assert str(problem).startswith("line 4, column 7: result: where: `a + 1` is an int.")


# --- tables --------------------------------------------------------------------------------------------------------

TABLE = "CREATE TABLE hosts (name STRING PRIMARY KEY, site STRING) WITH (file = 'hosts.csv');"
ROWS = {"hosts": [("a", "east"), ("b", "west")]}


def looked_up(text: str, **rows: Rows) -> Rows:
    """The rows of the one output of a text behind the sources and a table."""
    diagram = with_rows(ab.sql(SOURCES + TABLE + (text if "load" in text else with_load(text))).checked(), ROWS)
    return results(diagram, rows)["result"]


def test_a_table_has_all_that_a_table_can_have() -> None:
    text = """
    CREATE TABLE t (a DECIMAL(9, 2), b STRING, PRIMARY KEY (b, a)) WITH (database = 'sqlite:x.db', sql = 'SELECT 1');
    SELECT ping.host FROM ping JOIN t ON ping.host = t.b"""
    (table,) = ab.sql(SOURCES + with_load(text)).checked().tables
    schema = (Column("a", "decimal(9,2)"), Column("b", "string"))
    assert table == Table(name="t", schema=schema, key=("b", "a"), database="sqlite:x.db", sql="SELECT 1")


def test_a_join_with_a_table() -> None:
    text = "SELECT p.host, h.site FROM ping p JOIN hosts AS h ON p.host = h.name"
    found = looked_up(text, ping=pings(("a", 1, 1), ("z", 2, 2), ("b", 3, 3)))
    assert same(found, {"host": "a", "site": "east"}, {"host": "b", "site": "west"})


@pytest.mark.parametrize("form", ["LEFT JOIN hosts ON", "LEFT OUTER JOIN hosts FOR SYSTEM_TIME AS OF ping.at ON"])
def test_a_left_join_with_a_table(form: str) -> None:
    found = looked_up(f"SELECT * FROM ping {form} host = name", ping=pings(("a", 1, 1), ("z", 2, 2)))
    assert same(
        found,
        {"host": "a", "rtt": 1, "at": 1_000_000, "name": "a", "site": "east"},
        {"host": "z", "rtt": 2, "at": 2_000_000, "name": None, "site": None},
    )


def test_a_join_with_a_table_may_compute_what_it_looks_up_and_ask_for_more() -> None:
    text = "SELECT rtt, site FROM ping JOIN hosts ON hosts.name = lower(ping.host) AND rtt > 1 AND site > 'g'"
    assert same(looked_up(text, ping=pings(("A", 3, 1), ("B", 1, 2), ("B", 2, 3))), {"rtt": 2, "site": "west"})


def test_a_column_that_the_table_has_too_keeps_its_meaning() -> None:
    text = """
    SELECT n.name AS host, h.name, n.site AS rtt, h.site, n.at
    FROM (SELECT host AS name, rtt AS site, at FROM ping) n JOIN hosts h ON n.name = h.name WHERE n.site > 0"""
    found = looked_up(text, ping=pings(("a", 1, 1), ("a", 0, 2)))
    assert same(found, {"host": "a", "name": "a", "rtt": 1, "site": "east", "at": 1_000_000})


def test_a_join_with_a_table_keeps_the_time() -> None:
    text = "CREATE VIEW placed AS SELECT site, at FROM ping JOIN hosts ON host = name;"
    text += "SELECT site, count(*) AS n FROM TUMBLE(placed, at, INTERVAL '10' SECOND) GROUP BY site, window_end"
    found = looked_up(text, ping=pings(("a", 1, 1), ("a", 1, 2), ("b", 1, 3)))
    assert same(found, {"site": "east", "n": 2}, {"site": "west", "n": 1})


def test_a_table_may_be_joined_behind_streams_and_twice() -> None:
    text = """
    SELECT p.host, one.site, two.site AS other FROM ping p JOIN load l ON p.host = l.host WITHIN INTERVAL '2' SECOND
    JOIN hosts one ON p.host = one.name JOIN hosts two ON l.host = two.name"""
    found = looked_up(text, ping=pings(("a", 1, 1)), load=loads(("a", 50, 1)))
    assert same(found, {"host": "a", "site": "east", "other": "east"})

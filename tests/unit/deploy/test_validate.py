"""All that can be wrong with a deployment: each mistake with its path, its words and its code, and all together."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from anabranch.deploy.mistakes import CODES, Report
from anabranch.deploy.plan import load_plan
from anabranch.deploy.validate import check_file
from anabranch.errors import ConfigError, DeploymentError, InvariantBroken
from anabranch.model.ids import QueryId
from tests.unit.deploy.files import GOOD, QUERY, WITH_TABLE, mistakes, write

ONE_BY_ONE = tomllib.loads((Path(__file__).parent / "mistakes.toml").read_text())["mistake"]


@pytest.mark.parametrize("case", ONE_BY_ONE, ids=lambda case: case["what"])
def test_one_mistake_is_told_once_with_its_path_and_what_to_change(case: dict[str, str], tmp_path: Path) -> None:
    assert case.get("replace", "") in GOOD
    text = GOOD.replace(case["replace"], case["by"]) if "replace" in case else f"{GOOD}\n{case['by']}"
    (told,) = mistakes(tmp_path, text)
    assert (told.code, told.path, f"{told.message} {told.remedy}".strip()) == (case["code"], case["path"], case["told"])
    assert str(told) == f"{case['path']}: {case['told']} [{case['code']}]"


def test_links_of_sites_and_nodes_may_overlap_but_not_with_equal_right(tmp_path: Path) -> None:
    sites = GOOD.replace('7001"', '7001", site = "east"').replace('7002"', '7002", site = "west"')
    overlapping = (
        '[[links]]\nbetween = ["east", "west"]\ndelay = "9ms"\n[[links]]\nbetween = ["a", "b"]\ndelay = "1ms"\n'
    )
    assert mistakes(tmp_path, sites + overlapping) == []
    crossing = '[[links]]\nbetween = ["a", "west"]\ndelay = "9ms"\n[[links]]\nbetween = ["b", "east"]\ndelay = "1ms"\n'
    assert [each.code for each in mistakes(tmp_path, sites + crossing)] == ["link-twice"]


def test_single_has_one_copy_of_everything(tmp_path: Path) -> None:
    told = [str(each) for each in mistakes(tmp_path, GOOD.replace('"race"', '"single"'))]
    remedy = 'Name one node, or write mode = "race". [several-copies]'
    assert told == [
        f"queries.paths.on: Mode single allows one copy, but 2 are given: b, c. {remedy}",
        f"queries.paths.entry.ping: Mode single allows one copy, but 2 are given: a, b. {remedy}",
    ]


def test_nodes_that_wait_for_each_other(tmp_path: Path) -> None:
    text = GOOD.replace('counts = "d"', 'slow = "b"\npairs = "c"\ncounts = "b"').replace('on = ["b", "c"]\n', "")
    (told,) = mistakes(tmp_path, text)
    assert str(told) == (
        "queries.paths.place: Nodes wait for each other in a cycle: c reads box:slow from b, b reads box:pairs from c. "
        "Place the boxes so that results flow one way. [node-cycle]"
    )


def test_nodes_that_exchange_only_the_rows_of_sources_do_not_wait_for_each_other(tmp_path: Path) -> None:
    text = GOOD.replace('ping = ["a", "b"]', 'ping = "b"').replace('load = ["a"]', 'load = ["c"]')
    assert mistakes(tmp_path, text) == []


def test_a_box_may_have_a_copy_beside_all_its_readers_and_others_elsewhere(tmp_path: Path) -> None:
    """Its readers read every copy, also those that run the box themselves."""
    text = GOOD.replace('counts = "d"', 'slow = ["b", "c", "d"]\npairs = ["b", "c"]\ncounts = "b"')
    assert mistakes(tmp_path, text) == []
    readers = load_plan(write(tmp_path, text)).nodes["c"].assignment.queries[QueryId("paths")].readers
    assert readers["box:pairs"] == ("counts@b",)


def test_a_node_may_be_in_several_queries(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(QUERY.replace("query: paths", "query: other"))
    other = '\n[queries.other]\nfile = "other.yaml"\nmode = "single"\non = "d"\nentry = {ping = "d", load = "d"}\n'
    assert mistakes(tmp_path, GOOD + other) == []
    plan = load_plan(write(tmp_path, GOOD + other))
    assert list(plan.nodes["d"].assignment.queries) == ["paths", "other"]
    assert list(plan.nodes["a"].assignment.queries) == ["paths"]


def test_nodes_share_no_state_directory_on_one_machine(tmp_path: Path) -> None:
    text = GOOD.replace('7001"', '7001", state = "s"').replace('7002"', '7002", state = "./s"')
    assert [str(each) for each in mistakes(tmp_path, text)] == [
        "nodes.b.state: ./s is also the state directory of a. Nodes cannot share a directory: give each its own. "
        "[state-shared]"
    ]
    assert mistakes(tmp_path, text.replace("127.0.0.1:7002", "elsewhere:7002")) == []


def test_problems_of_the_query_are_told_as_explain_tells_them(tmp_path: Path) -> None:
    broken = QUERY.replace("rtt_ms > 100", "rtt > 100").replace("count(*) AS n", "count(*)")
    told = mistakes(tmp_path, GOOD, broken)
    assert [(each.code, each.path) for each in told] == [("query", "queries.paths.file")] * 2
    assert str(told[0]).endswith("[unknown-column] [query]")
    assert "[missing-alias]" in str(told[1])


def test_a_query_that_cannot_be_read(tmp_path: Path) -> None:
    (told,) = mistakes(tmp_path, GOOD, "boxes: [")
    assert (told.code, told.path) == ("query", "queries.paths.file")
    (missing,) = mistakes(tmp_path, GOOD.replace("paths.yaml", "nowhere.yaml"))
    assert "nowhere.yaml cannot be read" in missing.message
    (tmp_path / "bad.py").write_text("import anabranch as ab\nq = ab.Query('paths')\nq.source('s', 7)\n")
    (misuse,) = mistakes(tmp_path, GOOD.replace("paths.yaml", "bad.py"))
    assert "[wrong-type]" in misuse.message


def test_replicas_may_not_decide_by_what_rounding_decides(tmp_path: Path) -> None:
    inexact = QUERY.replace("count(*) AS n", "stddev(rtt_ms) AS n").replace(
        "outputs:", '  - filter: {name: jumpy, input: counts, where: "n > 5"}\noutputs:\n  jumps: jumpy'
    )
    text = GOOD.replace('counts = "d"', 'counts = "d"\njumpy = "d"')
    (told,) = mistakes(tmp_path, text, inexact)
    assert (told.code, told.path) == ("query", "queries.paths.file")
    assert "[inexact-decision]" in told.message
    single = text.replace('"race"', '"single"').replace('["b", "c"]', '"b"').replace('["a", "b"]', '"a"')
    assert mistakes(tmp_path, single, inexact) == []


def test_an_output_with_writers_and_copies_needs_one_that_writes(tmp_path: Path) -> None:
    writing = QUERY.replace("quick: slow.1", "quick: {input: slow.1, to: console}")
    assert [str(each) for each in mistakes(tmp_path, GOOD, writing)] == [
        "queries.paths.write.quick: The output 'quick' has writers and 2 copies: each would write. "
        'Choose the node that writes: write.quick = "b". [writer-nowhere]'
    ]
    said = GOOD.replace("[queries.paths.place]", '[queries.paths.write]\nquick = "x"\n[queries.paths.place]')
    assert [each.code for each in mistakes(tmp_path, said, writing)] == ["unknown-node"]
    assert mistakes(tmp_path, said.replace('"x"', '"d"'), writing) == []


def test_what_a_node_says_of_tables_is_about_those_of_its_query(tmp_path: Path) -> None:
    said = GOOD.replace('7002"}', '7002", tables = {hots = "x.csv"}}')
    assert [str(each) for each in mistakes(tmp_path, said)] == [
        "nodes.b.tables.hots: The query paths has no table 'hots'. Leave it out. [unknown-table]"
    ]
    (told,) = mistakes(tmp_path, said, WITH_TABLE)
    assert told.remedy == "Candidates: hosts."
    assert mistakes(tmp_path, said.replace("hots", "hosts"), WITH_TABLE) == []


def test_rows_without_numbers_have_one_entry_point(tmp_path: Path) -> None:
    fed = QUERY.replace('cpu double"', 'cpu double", feed: "spark:rate"')
    told = mistakes(tmp_path, GOOD.replace('load = ["a"]', 'load = ["a", "b"]'), fed)
    assert [str(each) for each in told] == [
        "queries.paths.entry.load: The rows of 'load' carry no numbers, so a single node must number them. "
        "Name one entry point, or give the feed a lane and a number. [entry-alone]"
    ]
    assert mistakes(tmp_path, GOOD, fed) == []


def test_a_file_without_nodes(tmp_path: Path) -> None:
    assert [str(each) for each in mistakes(tmp_path, "")] == [
        'nodes: There are no nodes. Add one: [nodes.a] address = "127.0.0.1:7700". [missing-key]'
    ]


def test_all_mistakes_come_together(tmp_path: Path) -> None:
    text = (
        GOOD.replace("127.0.0.1:7001", "here")
        .replace('counts = "d"', "counts = 7\npair = 3")
        .replace('"race"', '"rice"')
        .replace('load = ["a"]', 'lod = ["x"]')
        + '\n[[links]]\nbetween = ["a", "z"]\ndelay = "soon"\nrite = 3\n'
    )
    told = mistakes(tmp_path, text, QUERY.replace("rtt_ms > 100", "rtt > 100"))
    assert sorted((each.code, each.path) for each in told) == [
        ("bad-address", "nodes.a.address"),
        ("bad-mode", "queries.paths.mode"),
        ("bad-value", "links[0].delay"),
        ("no-entry-point", "queries.paths.entry.load"),
        ("query", "queries.paths.file"),
        ("unknown-key", "links[0].rite"),
        ("unknown-node", "links[0].between"),
        ("unknown-node", "queries.paths.entry.lod"),
        ("unknown-source", "queries.paths.entry.lod"),
        ("wrong-type", "queries.paths.place.counts"),
        ("wrong-type", "queries.paths.place.pair"),
    ]
    with pytest.raises(DeploymentError) as caught:
        load_plan(write(tmp_path, text, QUERY.replace("rtt_ms > 100", "rtt > 100")))
    assert caught.value.mistakes == tuple(told)
    assert str(caught.value).startswith(f"{tmp_path / 'deployment.toml'} has 11 mistakes:\n  - ")


@pytest.mark.parametrize(("text", "told"), [("a = ", "Invalid value"), ("a = 1\na = 2", "overwrite")])
def test_a_file_that_is_no_toml(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        mistakes(tmp_path, text)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        load_plan(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b'site = "\xe9"')
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        load_plan(tmp_path / "latin.toml")


def test_a_code_that_nobody_documented_is_a_bug() -> None:
    with pytest.raises(InvariantBroken, match="of-tomorrow"):
        Report().add("of-tomorrow", ("nodes",), "It is new.")


def test_every_code_is_caused_by_a_test() -> None:
    caused = {case["code"] for case in ONE_BY_ONE}
    source = Path(__file__).read_text()
    source += Path(__file__).with_name("test_fault_script.py").read_text()
    preflight = Path(__file__).with_name("test_preflight.py").read_text()
    told = {code for code in CODES if f"[{code}]" in source or f'("{code}", ' in preflight}
    assert CODES.keys() - caused - told == set()


SQL_QUERY = """
CREATE SOURCE load (server STRING, cpu DOUBLE);
CREATE SOURCE ping (source STRING, target STRING, rtt_ms DOUBLE);
CREATE VIEW counts AS
SELECT target, count(*) AS n FROM TUMBLE(ping, _stime, INTERVAL '10' SECOND) GROUP BY target, window_end;
CREATE OUTPUT per_target AS SELECT * FROM counts;
CREATE OUTPUT busy AS SELECT server FROM load WHERE cpu > 0.9;
"""


def test_a_query_may_be_a_file_of_sql(tmp_path: Path) -> None:
    (tmp_path / "paths.sql").write_text(SQL_QUERY)
    file = write(tmp_path, GOOD.replace("paths.yaml", "paths.sql"))
    checked = check_file(file)
    assert checked.mistakes == ()
    (tmp_path / "paths.sql").write_text(SQL_QUERY + "SELECT cpu FROM load LIMIT 3;")
    assert [mistake.message.partition(": LIMIT")[0] for mistake in check_file(file).mistakes] == ["line 8, column 22"]

"""A plan as people and scripts see it."""

from __future__ import annotations

import json
from pathlib import Path

from anabranch.deploy.draw import as_data, as_text
from tests.unit.cli.conftest import Cli
from tests.unit.deploy.files import GOOD, QUERY, WITH_TABLE, plan, write

EXAMPLE = Path(__file__).parents[3] / "examples" / "planetlab.toml"


def test_a_plan_as_text(tmp_path: Path) -> None:
    query = QUERY.replace('cpu double"', 'cpu double", feed: generator').replace(
        "quick: slow.1", "quick: {input: slow.1, to: console}"
    )
    text = GOOD.replace("[queries.paths.place]", '[queries.paths.write]\nquick = "d"\n[queries.paths.place]')
    text = text.replace('7001"', '7001", site = "east"').replace(
        "[queries.paths]", '[nodes.e]\naddress = "h:1"\n[queries.paths]'
    )
    text += '\n[[links]]\nbetween = ["a", "b"]\ndelay = "5ms"\nrate = "10Mbit/s"\n'
    text += '\n[[links]]\nbetween = ["c", "d"]\ndelay = "9ms"\njitter = "1ms"\n'
    text += '\n[[links]]\nbetween = ["b", "d"]\ndelay = "0ms"\n'
    assert as_text(plan(tmp_path, text, query)) == (
        """\
query paths, mode race
  source ping enters at a, b
  source load enters at a, fed by a

fragment slow on b, c (2 copies)
  boxes slow, pairs
  stage slow <- ping
    -> output quick
  stage pairs <- ping, load
    -> box:pairs

fragment counts on d (1 copy)
  boxes counts
  stage counts <- box:pairs
    -> output per_target

node a at 127.0.0.1:7001, site east, no Spark
  entry point of ping, with b
  entry point of load
  runs the feed of load
  sends ping, load to slow@b, slow@c

node b at 127.0.0.1:7002, Spark local[*]
  entry point of ping, with a
  runs slow, as does c
  reads ping from a, b
  reads load from a
  sends ping to slow@b, slow@c
  sends box:pairs to counts@d
  sends quick to d
  can be rebuilt from c

node c at 127.0.0.1:7003, Spark local[*]
  runs slow, as does b
  reads ping from a, b
  reads load from a
  sends box:pairs to counts@d
  sends quick to d
  can be rebuilt from b

node d at 127.0.0.1:7004, Spark local[*]
  runs counts
  reads box:pairs, quick from b, c
  writes quick, which it reads from other nodes

node e at h:1, no Spark
  has nothing to do yet

links
  a - b: delay 5ms, at most 10 Mbit/s
  b - d: as it is
  c - d: delay 9ms ± 1ms

faults not allowed
"""
    )


def test_three_copies_know_each_other(tmp_path: Path) -> None:
    made = plan(tmp_path, GOOD.replace('on = ["b", "c"]', 'on = ["a", "b", "c"]'))
    assert "  runs slow, as do a, c\n" in as_text(made)


def test_explain_shows_a_deployment(cli: Cli) -> None:
    shown = cli("explain", str(EXAMPLE))
    assert shown.exit_code == 0
    assert shown.stdout.startswith("query planetlab, mode race\n")
    assert "node wisc at 127.0.0.1:7721, Spark local[1]\n  runs loads, as does purdue\n" in shown.stdout
    assert "  can be rebuilt from purdue\n" in shown.stdout
    assert "node mit at 127.0.0.1:7711, no Spark\n" in shown.stdout


def test_explain_as_json_is_the_plan(cli: Cli, tmp_path: Path) -> None:
    shown = json.loads(cli("explain", str(write(tmp_path)), "--json").stdout)
    assert shown == {"mistakes": [], "plan": json.loads(json.dumps(as_data(plan(tmp_path))))}
    query = shown["plan"]["nodes"]["b"]["queries"]["paths"]
    assert query["fragments"] == ["slow"]
    assert query["replicas"]["paths/pairs@b#1"]["peers"] == ["c"]
    assert query["upstream"] == {"ping": ["a", "b"], "load": ["a"]}
    assert shown["plan"]["queries"]["paths"]["copies"]["box:pairs"] == ["b", "c"]


def test_explain_tells_all_mistakes_of_a_deployment(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace('counts = "d"', 'counts = "e"').replace("7002", "7001"))
    told = cli("explain", str(file))
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"error[deployment]: {file} has 2 mistakes:\n  - nodes.b.address: ")
    as_json = cli("explain", str(file), "--json")
    found = json.loads(as_json.stdout)
    assert (as_json.exit_code, found["plan"]) == (2, None)
    assert [mistake["path"] for mistake in found["mistakes"]] == ["nodes.b.address", "queries.paths.place.counts"]


def test_a_deployment_is_neither_mermaid_nor_planned_by_spark(cli: Cli, tmp_path: Path) -> None:
    for option in ("--mermaid", "--plan"):
        refused = cli("explain", str(write(tmp_path)), option)
        assert refused.exit_code == 2
        assert "not to deployments" in refused.stderr


def test_a_plan_shows_where_each_node_has_its_tables(tmp_path: Path) -> None:
    made = plan(tmp_path, GOOD.replace("c = {", 'c = {tables = {hosts = "own.csv"}, '), WITH_TABLE)
    text = as_text(made)
    assert "node b at 127.0.0.1:7002, Spark local[*]\n" in text
    assert text.count("  reads the table hosts from hosts.csv\n") == 1
    assert text.count(f"  reads the table hosts from {tmp_path}/own.csv\n") == 1
    assert as_data(made)["nodes"]["c"]["tables"] == {"hosts": f"{tmp_path}/own.csv"}

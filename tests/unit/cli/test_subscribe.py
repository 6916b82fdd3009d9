"""Reading a stream on the command line: as JSON lines, as a table, by name, and for as long as someone reads."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.deploy.copies import copies_of
from anabranch.deploy.plan import load_plan
from anabranch.errors import NodeUnreachable
from anabranch.model.header import Kind
from anabranch.model.position import Position
from anabranch.transport.ports import ReadRequest, StreamInfo
from tests.unit.cli.conftest import Cli, TalkingNode
from tests.unit.cli.terminal import on_a_terminal
from tests.unit.deploy.files import GOOD, QUERY, write
from tests.unit.transport.fake_node import pings, tuples
from tests.unit.transport.log_node import LogNode
from tests.waiting import HANG_S

MISTAKES = [
    (("out",), "No node given to read 'out' from"),
    (("127.0.0.1:1", "s", "--deployment", "examples/planetlab.toml"), "both name nodes"),
    (("nonsense", "--deployment", "examples/planetlab.toml"), "has a stream 'nonsense'"),
    (("s", "--node", "127.0.0.1:1", "--node", "127.0.0.1:1"), "each node once"),
    (("s", "--node", "127.0.0.1:1", "--node", "127.0.0.1:2", "--from", "a1:3"), "in the log of one node"),
]
Program = Callable[..., subprocess.Popen[bytes]]


def rows_of(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def boundary(node: TalkingNode) -> pa.RecordBatch:
    return tuples(pings(0.0), node.last_id + 1, Kind.BOUNDARY)


def test_json_lines_have_the_header_and_iso_times(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.5, 2.5), 1)]
    result = cli("subscribe", address, "ping", "--no-follow")
    assert result.exit_code == 0, result.output
    first, second = rows_of(result.stdout)
    header = {"_kind": 0, "_id": 1, "_tid": 1, "_stime": "1970-01-01T00:00:00.000001Z", "_origin": "ping/0"}
    assert first == header | {"source": "a", "target": "b", "rtt_ms": 1.5, "hops": 3, "sent": None}
    assert second["_id"] == 2


def test_a_table_has_a_heading_and_aligned_columns(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.5, 250.0), 1)]
    result = cli("subscribe", address, "ping", "--no-follow", "--format", "table")
    heading, line, first, second = result.stdout.splitlines()
    assert heading.split() == ["_id", "_stime", "source", "target", "rtt_ms", "hops", "sent"]
    assert set(line) == {"─", " "}
    assert first.split() == ["1", "1970-01-01T00:00:00.000001Z", "a", "b", "1.5", "3", "NULL"]
    assert len(first) == len(second)


def test_boundaries_are_shown_only_when_asked_for(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [boundary(node)]
    assert cli("subscribe", address, "ping", "--no-follow").stdout == ""
    shown = rows_of(cli("subscribe", address, "ping", "--no-follow", "--boundaries").stdout)
    assert [row["_kind"] for row in shown] == [2]
    assert "BOUNDARY" in cli("subscribe", address, "ping", "--no-follow", "--boundaries", "--format", "table").stdout


def test_it_begins_where_it_is_told(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.0, 2.0, 3.0), 1)]
    after = cli("subscribe", address, "ping", "--no-follow", "--from", "a1:2")
    assert [row["_id"] for row in rows_of(after.stdout)] == [3]
    nothing = cli("subscribe", address, "ping", "--no-follow", "--from", "end")
    assert nothing.stdout == ""


@pytest.mark.parametrize("start", ["middle", "a1:x", "b2:1"])
def test_a_place_that_is_none_is_an_error_of_the_user(cli: Cli, node: TalkingNode, address: str, start: str) -> None:
    result = cli("subscribe", address, "ping", "--no-follow", "--from", start)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[")


def test_a_limit_ends_a_read_that_follows(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.0, 2.0), 1), tuples(pings(3.0, 4.0), 3)]
    result = cli("subscribe", address, "ping", "--from", "start", "--limit", "3")
    assert [row["_id"] for row in rows_of(result.stdout)] == [1, 2, 3]


def test_a_named_reader_says_what_it_has_shown_and_goes_on_there(cli: Cli, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.0, 2.0, 3.0), 1)]
    cli("subscribe", address, "ping", "--reader", "desk", "--limit", "2")
    assert node.readers == {("ping", "desk"): Position("a1", 2)}
    log = {"incarnation": "a1", "last_id": 3, "readers": {"desk": {"seq": 1, "lag_rows": 1}}}
    node.told = {"state": "running", "queries": {"": {"streams": {"ping": log}}}}
    again = cli("subscribe", address, "ping", "--reader", "desk", "--no-follow")
    assert [row["_id"] for row in rows_of(again.stdout)] == [3]


def test_a_stream_that_is_not_there_is_named_with_those_that_are(cli: Cli, node: TalkingNode, address: str) -> None:
    node.told = {"state": "running"}
    result = cli("subscribe", address, "pong", "--no-follow")
    assert result.exit_code == 2
    assert "pong" in result.stderr
    assert "ping.late" in result.stderr


def test_a_node_that_is_starting_is_waited_for_and_said_so(
    cli: Cli, node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the subscription itself waits, if need be."""
    node.told = {"state": "starting"}
    node.batches = [tuples(pings(1.0), 1)]
    asked, info = [], node.stream

    def late(stream: str) -> StreamInfo:
        asked.append(stream)
        if len(asked) < 3:
            raise NodeUnreachable("It is not there yet.")
        return info(stream)

    monkeypatch.setattr(node, "stream", late)
    monkeypatch.setattr("anabranch.transport.subscription.Retry.wait_after", _raises)
    result = cli("subscribe", address, "ping", "--from", "start", "--limit", "1")
    assert len(rows_of(result.stdout)) == 1, result.output
    assert len(asked) >= 3
    assert result.stderr == "waiting for ping: its node is starting\n"


def _raises(_: object, error: NodeUnreachable) -> None:
    raise error


def test_someone_who_sees_nothing_yet_is_told_what_it_waits_for(
    node: TalkingNode, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = node.read

    def with_a_row_later(request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        batches = read(request, cancelled)
        yield next(batches)
        node.batches = [tuples(pings(1.0), 1)]
        yield from batches

    monkeypatch.setattr(node, "read", with_a_row_later)
    code, shown = on_a_terminal("subscribe", address, "ping", "--limit", "1", NO_COLOR="1")
    assert code == 0
    first, *table = shown.splitlines()
    assert first == "waiting for new rows of ping; Ctrl-C stops, --from start shows existing ones"
    assert len(table) == 3


def test_head_ends_it_silently(program: Program, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(*map(float, range(1000))), 1 + 1000 * number) for number in range(20)]
    with program("subscribe", address, "ping", "--from", "start") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["_id"] == 1
        process.stdout.close()
        assert (process.wait(HANG_S), process.stderr.read()) == (0, b"")


def test_ctrl_c_ends_it_silently(program: Program, node: TalkingNode, address: str) -> None:
    node.batches = [tuples(pings(1.0), 1)]
    with program("subscribe", address, "ping", "--from", "start") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANG_S) == (b"", b"")
        assert process.returncode == 130


# --- several copies ------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LogNode, LogNode]]:
    nodes = LogNode(tmp_path, "m"), LogNode(tmp_path, "n")
    yield nodes
    for node in nodes:
        node.close()


def test_all_copies_are_read_and_each_row_is_shown_once(cli: Cli, pair: tuple[LogNode, LogNode]) -> None:
    pair[0].append([("a", 10, 1), ("b", 12, 2)], a=11)
    pair[1].append([("a", 11, 3), ("a", 10, 1)], a=11)
    named = [part for node in pair for part in ("--node", node.address)]
    result = cli("subscribe", "s", *named, "--no-follow", "--boundaries")
    assert result.exit_code == 0, result.output
    shown = rows_of(result.stdout)
    assert sorted(row["x"] for row in shown if row["_kind"] == 0) == [1, 2, 3]  # type: ignore[type-var]
    assert {row["_id"] for row in shown} == {None}
    assert [row["_origin"] for row in shown if row["_kind"] == 2] == ["a"]


def test_the_address_may_stand_first_and_a_table_has_no_ids(cli: Cli, pair: tuple[LogNode, LogNode]) -> None:
    for node in pair:
        node.append([("a", 10, 1)])
    result = cli("subscribe", pair[0].address, "s", "--node", pair[1].address, "--no-follow", "--format", "table")
    heading, _, row = result.stdout.splitlines()
    assert heading.split() == ["_stime", "x"]
    assert row.split() == ["1970-01-01T00:00:00.000010Z", "1"]


@pytest.mark.parametrize("copies", [1, 2])
def test_in_the_order_of_stream_time(cli: Cli, pair: tuple[LogNode, LogNode], copies: int) -> None:
    for node in pair[:copies]:
        node.append([("b", 12, 2), ("a", 10, 1)])
        node.append([("a", 11, 3)], a=20, b=20)
    named = [part for node in pair[:copies] for part in ("--node", node.address)]
    result = cli("subscribe", "s", *named, "--from", "start", "--ordered", "--limit", "3")
    assert [row["x"] for row in rows_of(result.stdout)] == [1, 3, 2]


def test_a_named_reader_of_all_copies_goes_on_at_each(cli: Cli, pair: tuple[LogNode, LogNode]) -> None:
    named = [part for node in pair for part in ("--node", node.address)]
    for node in pair:
        node.append([("a", 10, 1)], a=11)
    first = cli("subscribe", "s", *named, "--reader", "desk", "--no-follow")
    assert [row["x"] for row in rows_of(first.stdout)] == [1]
    assert [node.log.readers() for node in pair] == [{"desk": 1}, {"desk": 1}]
    pair[1].append([("a", 12, 2)], a=13)
    again = cli("subscribe", "s", *named, "--reader", "desk", "--limit", "1")
    assert [row["x"] for row in rows_of(again.stdout)] == [2]


@pytest.mark.parametrize(("arguments", "why"), MISTAKES)
def test_nodes_that_are_named_wrongly(cli: Cli, arguments: tuple[str, ...], why: str) -> None:
    result = cli("subscribe", *arguments)
    assert result.exit_code == 2
    assert why in result.stderr


def test_a_deployment_says_where_the_copies_are() -> None:
    plan = load_plan("examples/planetlab.toml")
    (query,) = plan.queries.values()
    stream, nodes = next((stream, nodes) for stream, nodes in query.copies.items() if len(nodes) > 1)
    addresses = [str(plan.nodes[node].address) for node in nodes]
    assert copies_of(plan, stream) == copies_of(plan, f"planetlab/{stream}") == (addresses, f"planetlab/{stream}")
    source = query.diagram.sources[0].name
    assert copies_of(plan, f"{source}.late") == (copies_of(plan, source)[0], f"planetlab/{source}.late")


def test_a_stream_that_two_queries_have_must_be_named_with_its_query(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(QUERY.replace("query: paths", "query: other"))
    other = '\n[queries.other]\nfile = "other.yaml"\nmode = "single"\non = "d"\nentry = {ping = "d", load = "d"}\n'
    plan = load_plan(write(tmp_path, GOOD + other))
    with pytest.raises(ab.StreamNotFound, match=r"Name one of: other/quick, paths/quick\."):
        copies_of(plan, "quick")
    assert copies_of(plan, "other/quick") == ([str(plan.nodes["d"].address)], "other/quick")
    with pytest.raises(ab.StreamNotFound, match="No query of this deployment has a stream 'third/quick'"):
        copies_of(plan, "third/quick")

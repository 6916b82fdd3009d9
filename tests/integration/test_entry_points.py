"""Entry points that share a source, over real Flight, without Spark: one is lost, and nothing is lost or repeated.

Rules that are broken on purpose are noticed by the same tests.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import anabranch as ab
from anabranch import limits
from anabranch.cli.app import app
from anabranch.core.roll_call import Beginning
from anabranch.core.shared_lane import SharedLane
from anabranch.errors import NodeUnreachable, NotLeading, SessionExpired, StreamNotFound
from anabranch.model.position import Position
from anabranch.model.times import CLOSED_US
from anabranch.node.shared_entry import SharedEntryPoint
from anabranch.runtime.ingest.lane_replica import TRIM_ENTRIES
from anabranch.transport.client import Client
from anabranch.transport.ports import Push, ReadRequest
from anabranch.transport.producer import stamped, wall_clock_us
from tests.integration.entry_points import EntryPoints, diagram, entry_points
from tests.waiting import wait_for


@contextmanager
def producing(points: EntryPoints, first: str = "a") -> Iterator[ab.Producer]:
    with ab.connect(points.addresses(first)) as connection:
        yield connection.producer("events", "p")


def push(producer: ab.Producer, *values: int) -> None:
    producer.push([{"x": value} for value in values])


def test_what_is_pushed_is_the_same_at_all_of_them(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            push(producer, *range(100))
            producer.void(3)
            push(producer, 100)
            producer.boundary(max(stime for _, stime, _, _ in points.rows(points.leader())) + 1)
        wait_for(points.agree)
        assert points.values("a") == list(range(101))
        assert [tid for _, _, tid, _ in points.rows("b")] == [*range(1, 101), 104]


def test_a_producer_goes_on_at_a_peer_and_who_was_away_catches_up(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            push(producer, 0, 1, 2)
            leader = points.leader()
            points.stop(leader)
            for value in range(3, 10):
                push(producer, value)
            points.start(leader)
            push(producer, 10)
            wait_for(points.agree)
        assert points.values(leader) == list(range(11))


def test_a_session_is_kept_by_all_and_a_newer_one_ends_it(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points, "a") as old:
            push(old, 0)
            with producing(points, "b") as new:
                assert new.next == 2
                push(new, 1)
                with pytest.raises(SessionExpired):
                    push(old, 2)
                push(new, 3)
        wait_for(points.agree)
        assert points.values("c") == [0, 1, 3]


def test_a_plain_client_is_sent_to_who_leads(tmp_path: Path) -> None:
    with entry_points(tmp_path, query=diagram(producers=())) as points:
        points.start()
        wait_for(lambda: points.follow_one("events/0"))
        leader = points.leader("events/0")
        follower = next(name for name in points.names if name != leader)
        with ab.connect(points.address(follower)) as connection, pytest.raises(NotLeading, match=f"led by .* {leader}"):
            connection.push("events", [{"x": 1}])
        with ab.connect(points.addresses(follower)) as connection:
            assert connection.push("events", [{"x": 1}]).rows == 1
            points.stop(leader)
            wait_for(lambda: points.follow_one("events/0"))
            connection.push("events", [{"x": 2}])
        points.start(leader)
        wait_for(lambda: [points.values(name) for name in points.names] == [[1, 2]] * 3)


@pytest.mark.parametrize("producers", [(), ("p",)])
def test_a_feed_runs_at_one_of_them_and_goes_on_where_it_was(tmp_path: Path, producers: tuple[str, ...]) -> None:
    origin = "events/p" if producers else "events/0"
    query = diagram(producers=producers, feed="generator:rate=2000,rows=1500,x=sequence")
    with entry_points(tmp_path, query=query) as points:
        points.start()
        wait_for(lambda: len(points.values("c")) > 100)
        points.stop("b")
        wait_for(lambda: len(points.values("c")) > 500)
        points.start("b")
        points.stop("a")  # where it runs
        points.start("a")
        wait_for(lambda: points.punctuations("c").get(origin) == CLOSED_US)
        wait_for(points.agree)
        assert len(points.values("c")) == 1_500
        assert len(set(points.values("c"))) == 1_500


def test_the_boundaries_of_an_owned_lane_are_decided_once(tmp_path: Path) -> None:
    with entry_points(tmp_path, query=diagram(producers=())) as points:
        points.start()
        wait_for(lambda: all(points.punctuations(name) for name in points.names))
        leader = points.leader("events/0")
        points.stop(leader)
        before = max(points.punctuations(name)["events/0"] for name in points.nodes)
        wait_for(lambda: all(points.punctuations(name)["events/0"] > before for name in points.nodes))
        points.start(leader)
        wait_for(points.agree)


def test_without_a_majority_nothing_is_answered_and_nothing_shows(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            push(producer, 0)
            leader = points.leader()
            session = producer.registration.session
        wait_for(points.agree)
        points.stop(*[name for name in points.names if name != leader])
        with Client(points.address(leader)) as client, pytest.raises(NodeUnreachable, match="No majority"):
            client.push(one_row(session, first=2, x=1))
        assert points.values(leader) == [0]
        assert points.lane(leader).held == 3  # a session and two rows
        assert points.lane(leader).released == 2
        points.start(*[name for name in points.names if name != leader])
        wait_for(lambda: points.agree() and points.values(leader) == [0, 1])  # it was held, and is known again
        with producing(points, leader) as producer:
            assert producer.next == 3


def one_row(session: int, *, first: int, x: int) -> Push:
    rows = stamped(pa.RecordBatch.from_pydict({"x": pa.array([x], pa.int64())}), wall_clock_us())
    return Push(source="events", producer="p", session=session, first=first, rows=rows)


def test_the_command_line_goes_on_at_another_node(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"x": {number}}}\n' for number in range(10)))
    with entry_points(tmp_path) as points:
        points.start()
        wait_for(points.agree)
        points.stop("a")
        nodes = [f"--node={points.address(name)}" for name in "bc"]
        command = ["push", points.address("a"), "events", str(rows), "--producer", "p", *nodes, "--batch", "3"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert points.values(points.leader()) == list(range(10))


# --- lost disks ----------------------------------------------------------------------------------------------------


def test_who_lost_its_disk_learns_and_counts_again(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points, "a") as producer:
            for value in range(2 * TRIM_ENTRIES):
                push(producer, value)
            points.stop("c")
            points.lose_disk("c")
            push(producer, 1_000)
            points.start("c")
            wait_for(lambda: points.lane("c").state == "follows")
            wait_for(points.agree)
            points.stop("a")  # b and c are a majority now
            push(producer, 1_001)
            points.start("a")
        wait_for(points.agree)
        assert points.values("c") == [*range(2 * TRIM_ENTRIES), 1_000, 1_001]


def test_what_all_have_and_readers_have_read_is_forgotten(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            for value in range(2 * TRIM_ENTRIES):
                push(producer, value)
            assert points.lane("a").kept > 2 * TRIM_ENTRIES
            wait_for(points.agree)
            points.read_all()
            push(producer, 1_000)
            push(producer, 1_001)
            wait_for(lambda: all(points.lane(name).kept < TRIM_ENTRIES for name in points.names))
            points.stop("a", "b", "c")
            points.start()
            assert producer.push([{"x": 1_002}]).rows == 1
        wait_for(lambda: all(points.values(name)[-1] == 1_002 for name in points.names))


def test_who_lost_its_disk_waits_for_those_who_know(tmp_path: Path) -> None:
    """A majority of the new disk and one that was away would know nothing of what was released without it."""
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points, "a") as producer:
            push(producer, 0)
            wait_for(points.agree)
            points.stop("c")
            push(producer, 1)  # a and b have it
        points.stop("a", "b")
        points.lose_disk("b")
        points.start("b", "c")
        with Client(points.address("c")) as client:
            wait_for(lambda: points.nodes["b"].statistics().peers["c"].state == "there")
            with pytest.raises(NotLeading):
                client.register("events", "p")
        assert points.lane("b").state == "beginning"
        points.start("a")
        wait_for(lambda: points.agree() and points.values("b") == [0, 1])


def test_a_crash_at_the_very_beginning_is_no_lost_disk(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start("a", "b")  # c is needed, too
        wait_for(lambda: points.nodes["a"].statistics().peers["b"].state == "there")
        points.stop("a")
        points.start("a", "c")
        with producing(points) as producer:
            push(producer, 0)
        wait_for(points.agree)
        assert {points.lane(name).state for name in "abc"} == {"leads", "follows"}


def test_two_need_each_other(tmp_path: Path) -> None:
    with entry_points(tmp_path, "ab") as points:
        points.start()
        with producing(points) as producer:
            push(producer, 0)
            points.stop("b")
            with Client(points.address("a")) as client, pytest.raises(NodeUnreachable, match="No majority"):
                client.push(one_row(producer.registration.session, first=2, x=1))
            assert points.values("a") == [0]
            points.start("b")
            push(producer, 1)
        wait_for(lambda: points.agree() and points.values("b") == [0, 1])


# --- too far behind ------------------------------------------------------------------------------------------------


def test_who_lacks_what_the_others_forgot_goes_on_behind_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LANE_KEPT_ENTRIES", 20)
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points, "a") as producer:
            push(producer, 0)
            wait_for(points.agree)
            incarnation = points.incarnation("c")
            place = Position(incarnation, points.rows("c")[-1][2])
            points.stop("c")
            for value in range(1, 150):
                push(producer, value)
            assert points.lane("a").kept < 150
            points.start("c")
            push(producer, 150)
            wait_for(lambda: 150 in points.values("c"))
            found = points.values("c")
            assert found[0] == 0
            assert len(found) < 151
            assert found[1:] == list(range(found[1], 151))
            assert points.incarnation("c") != incarnation
            with Client(points.address("c")) as client, pytest.raises(StreamNotFound, match="is now incarnation"):
                client.read(ReadRequest(stream="events", start=place))
            (row,) = (row for row in points.rows("a") if row[3] == found[1] - 1)  # the last one that it lacks
            assert points.floors("c")["events/p"] == row[1] + 1
            points.stop("a", "b")
            points.start("a", "b")
        with producing(points, "c") as producer:  # it can lead all the same
            assert producer.next == 152
            push(producer, 151)
        wait_for(lambda: [points.values(name)[-1] for name in "abc"] == [151] * 3)


# --- by chance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_stopped_nothing_is_lost_or_repeated(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            pushed = 0
            for _ in range(6):
                away = chance.choice(points.names)
                pushed = push_some(producer, pushed, chance)
                with pushing(producer, pushed, count := chance.randrange(1, 20)):
                    points.stop(away)
                pushed += count
                pushed = push_some(producer, pushed, chance)
                points.start(away)
                if chance.random() < 0.5:
                    wait_for(points.agree)
        wait_for(points.agree)
        assert points.values("a") == list(range(pushed)), f"seed {seed}"


def push_some(producer: ab.Producer, first: int, chance: random.Random) -> int:
    count = chance.randrange(1, 5)
    push(producer, *range(first, first + count))
    return first + count


@contextmanager
def pushing(producer: ab.Producer, first: int, count: int) -> Iterator[None]:
    """One by one, beside what the test does."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            for value in range(first, first + count):
                push(producer, value)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


# --- broken rules are noticed --------------------------------------------------------------------------------------


class ReleasesAlone(SharedLane[Any]):
    """Broken: what the leader holds counts as held by a majority."""

    def _released(self, copy: Any, leading: Any) -> int:
        return int(copy.held)


def test_a_release_without_a_majority_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.node.shared_entry.SharedLane", ReleasesAlone)
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        test_without_a_majority_nothing_is_answered_and_nothing_shows(tmp_path)


def test_an_answer_before_the_release_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedEntryPoint, "_wait_released", lambda self, replica, pending: None)
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        test_without_a_majority_nothing_is_answered_and_nothing_shows(tmp_path)


def test_a_lost_disk_that_is_not_told_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Beginning, "needed", property(lambda self: 1))
    monkeypatch.setattr(Beginning, "lost_its_disk", property(lambda self: False))
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        test_who_lost_its_disk_waits_for_those_who_know(tmp_path)

"""Entry points that share a source, over real Flight, without Spark: one is lost, and nothing is lost or repeated.

Random stops and starts are drawn from a seed; ``ANABRANCH_SEED`` repeats one.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.core.shared_lane import SharedLane
from anabranch.errors import NodeUnreachable, NotLeading, SessionExpired
from anabranch.transport.client import Client
from anabranch.transport.ports import Push
from tests.integration.entry_points import EntryPoints, diagram, entry_points
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


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
            producer.boundary(max(stime for _, stime, _, _ in points.rows(points.leaders()[0])) + 1)
        wait_for(points.agree)
        assert points.values("a") == list(range(101))
        assert [tid for _, _, tid, _ in points.rows("b")] == [*range(1, 101), 104]


def test_a_producer_goes_on_at_a_peer_and_who_was_away_catches_up(tmp_path: Path) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            push(producer, 0, 1, 2)
            (leader,) = points.leaders()
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
        wait_for(lambda: points.leaders("events/0"))
        (leader,) = points.leaders("events/0")
        follower = next(name for name in points.names if name != leader)
        wait_for(lambda: points.lane(follower, "events/0")["leader"] == leader)
        with ab.connect(points.address(follower)) as connection, pytest.raises(NotLeading, match=f"led by .* {leader}"):
            connection.push("events", [{"x": 1}])
        with ab.connect(points.addresses(follower)) as connection:
            assert connection.push("events", [{"x": 1}]).rows == 1
            points.stop(leader)
            wait_for(lambda: points.leaders("events/0"))
            connection.push("events", [{"x": 2}])
        points.start(leader)
        wait_for(lambda: [points.values(name) for name in points.names] == [[1, 2]] * 3)


def test_the_boundaries_of_an_owned_lane_are_decided_once(tmp_path: Path) -> None:
    with entry_points(tmp_path, query=diagram(producers=())) as points:
        points.start()
        wait_for(lambda: all(points.punctuations(name) for name in points.names))
        (leader,) = points.leaders("events/0")
        points.stop(leader)
        before = max(points.punctuations(name)["events/0"] for name in points.nodes)
        wait_for(lambda: all(points.punctuations(name)["events/0"] > before for name in points.nodes))
        points.start(leader)
        wait_for(points.agree)


def test_without_a_majority_nothing_is_answered_and_nothing_shows(tmp_path: Path, monkeypatch: object) -> None:
    with entry_points(tmp_path) as points:
        points.start()
        with producing(points) as producer:
            push(producer, 0)
            (leader,) = points.leaders()
            session = producer.registration.session
        wait_for(points.agree)
        points.stop(*[name for name in points.names if name != leader])
        with Client(points.address(leader)) as client, pytest.raises(NodeUnreachable, match="No majority"):
            client.push(_push(session, first=2, x=1))
        assert points.values(leader) == [0]
        assert points.lane(leader)["held"] == 3  # a session and two rows
        assert points.lane(leader)["released"] == 2
        points.start(*[name for name in points.names if name != leader])
        wait_for(lambda: points.agree() and points.values(leader) == [0, 1])  # it was held, and is known again
        with producing(points, leader) as producer:
            assert producer.next == 3


def _push(session: int, *, first: int, x: int) -> Push:
    from anabranch.transport.producer import stamped, wall_clock_us
    import pyarrow as pa

    rows = stamped(pa.RecordBatch.from_pydict({"x": pa.array([x], pa.int64())}), wall_clock_us())
    return Push(source="events", producer="p", session=session, first=first, rows=rows)

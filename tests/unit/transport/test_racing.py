"""A client reads two copies of a stream: each tuple comes once, whoever brings it, comes, goes or stands still."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError, NodeUnreachable, StreamNotFound
from anabranch.model.header import Kind
from anabranch.model.position import Position
from anabranch.transport.racing import RacingSubscription
from anabranch.transport.session import Connections, connect
from tests.unit.transport.log_node import Entry, LogNode, stored
from tests.waiting import HANG_S, wait_for

A1, A2, A3, B1 = ("a", 10, 1), ("a", 10, 2), ("a", 12, 3), ("b", 11, 1)


def entries(batch: pa.RecordBatch) -> list[Entry]:
    times = batch.column("_stime").cast(pa.int64()).to_pylist()
    rows = zip(batch.column("_kind").to_pylist(), batch.column("_origin").to_pylist(), times,
               batch.column("_tid").to_pylist(), strict=True)  # fmt: skip
    return [(origin, time, tid) for kind, origin, time, tid in rows if kind == Kind.INSERTION]


def promises(batch: pa.RecordBatch) -> dict[str, int]:
    times = batch.column("_stime").cast(pa.int64()).to_pylist()
    rows = zip(batch.column("_kind").to_pylist(), batch.column("_origin").to_pylist(), times, strict=True)
    return {origin: time for kind, origin, time in rows if kind == Kind.BOUNDARY}


class Taken:
    """What a subscription brings, taken in a thread of its own."""

    def __init__(self, subscription: Any) -> None:
        self.subscription = subscription
        self.entries: list[Entry] = []
        self.promises: dict[str, int] = {}
        self.error: Exception | None = None
        self.is_over = False
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        try:
            for batch in self.subscription:
                self.entries += entries(batch)
                self.promises.update(promises(batch))
        except Exception as error:
            self.error = error
        self.is_over = True

    def close(self) -> None:
        self.subscription.close()
        self._thread.join()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def pair(tmp_path: Path, opened: ExitStack) -> tuple[LogNode, LogNode]:
    one, other = LogNode(tmp_path, "m"), LogNode(tmp_path, "n")
    opened.callback(one.close)
    opened.callback(other.close)
    return one, other


@pytest.fixture
def replicas(pair: tuple[LogNode, LogNode], opened: ExitStack) -> Connections:
    return opened.enter_context(connect([each.address for each in pair], timeout_s=HANG_S))


@pytest.fixture
def read(replicas: Connections, opened: ExitStack) -> Any:
    def subscribe(**options: Any) -> Taken:
        taken = Taken(replicas.subscribe("s", **options))
        opened.callback(taken.close)
        return taken

    return subscribe


def are_read(taken: Taken) -> bool:
    return all(copy.state == "read" for copy in taken.subscription.statistics().values())


def test_the_first_arrival_passes_and_the_boundaries_are_the_largest(pair: tuple[LogNode, LogNode], read: Any) -> None:
    taken = read(start="start")
    pair[0].append([A1, A2])
    wait_for(lambda: taken.entries == [A1, A2])
    pair[1].append([A3, B1, A2, A1], a=11)
    wait_for(lambda: taken.promises == {"a": 11})
    pair[0].append([B1, A3], a=10, b=12)
    wait_for(lambda: taken.promises == {"a": 11, "b": 12})
    assert taken.entries == [A1, A2, A3, B1]
    first = {name: copy.first for name, copy in taken.subscription.statistics().items()}
    assert first == {pair[0].address: 2, pair[1].address: 2}


def test_ids_are_null_since_they_are_of_one_log(pair: tuple[LogNode, LogNode], replicas: Connections) -> None:
    for node in pair:
        node.append([A1], a=11)
    with replicas.subscribe("s", start="start", follow=False) as subscription:
        table = pa.Table.from_batches(subscription, schema=subscription.schema)
    assert table.column("_id").to_pylist() == [None, None]
    assert table.column("x").to_pylist() == [1, None]


def test_a_killed_copy_holds_up_nobody_and_is_read_again_after_its_position(
    pair: tuple[LogNode, LogNode], read: Any
) -> None:
    taken = read(start="start")
    for node in pair:
        node.append([A1], a=10)
    wait_for(lambda: len(taken.subscription.place) == 2)
    wait_for(lambda: all(place.id == 1 for place in taken.subscription.place.values()))
    pair[0].close()
    pair[1].append([A2], a=11)
    wait_for(lambda: taken.entries == [A1, A2])
    pair[0].open()
    pair[0].append([A2, A3], a=12)
    wait_for(lambda: taken.promises == {"a": 12})
    assert taken.entries == [A1, A2, A3]
    assert pair[0].requests[-1].start == Position(pair[0].log.incarnation, 1)


def test_a_copy_that_stands_still_holds_up_nobody(pair: tuple[LogNode, LogNode], read: Any) -> None:
    taken = read(start="start")
    wait_for(lambda: are_read(taken))
    pair[0].running.clear()
    for number in range(1, 6):
        pair[1].append([("a", number, number)], a=number)
        wait_for(lambda number=number: len(taken.entries) == number)  # type: ignore[misc]
    pair[0].append([("a", 7, 7)], a=8)
    pair[0].running.set()
    wait_for(lambda: taken.promises == {"a": 8})


def test_a_copy_that_stood_still_from_the_beginning_is_read_by_punctuation(
    pair: tuple[LogNode, LogNode], read: Any
) -> None:
    """It may not say that it is at its end: what it had by then may not have come from the other."""
    pair[0].running.clear()
    taken = read(start="end")
    pair[1].append([A1], a=11)
    wait_for(lambda: taken.entries == [A1])
    pair[0].append([A1, A3], a=13)  # and the other is never told of A3
    pair[0].running.set()
    wait_for(lambda: taken.promises == {"a": 13})
    assert taken.entries == [A1, A3]


def test_a_copy_with_a_new_disk_is_read_by_punctuation(pair: tuple[LogNode, LogNode], read: Any) -> None:
    taken = read(start="start")
    for node in pair:
        node.append([A1, A2], a=11)
    wait_for(lambda: taken.promises == {"a": 11})
    pair[0].close()
    pair[0].lose_disk()
    pair[0].open()
    for entry in (A1, A2, A3):  # computed once more
        pair[0].append([entry])
    pair[0].append([], a=13)
    wait_for(lambda: taken.promises == {"a": 13})
    assert taken.entries == [A1, A2, A3]
    assert pair[0].requests[-1].punctuations == {"a": 11}


def test_the_end_is_what_no_copy_has_yet(pair: tuple[LogNode, LogNode], read: Any) -> None:
    for node in pair:
        node.append([A1, A2], a=11)
    taken = read(start="end")
    pair[1].append([A3], a=13)
    wait_for(lambda: taken.promises == {"a": 13})
    assert taken.entries == [A3]


def test_what_was_trimmed_is_where_the_start_is(pair: tuple[LogNode, LogNode], read: Any) -> None:
    """The second copy has forgotten A1 at 10: it begins above, where both have everything."""
    pair[0].append([A1], a=9)
    pair[0].append([A3], a=13)
    pair[1].append([A1], a=9)
    pair[1].append([A3])
    pair[1].trim(1)
    taken = read(start="start")
    wait_for(lambda: taken.promises == {"a": 13})
    assert taken.entries == [A3]


def test_a_copy_does_not_vouch_for_what_it_has_trimmed(pair: tuple[LogNode, LogNode], read: Any) -> None:
    """The first copy comes back without B1, and promises that there is none. The other still has it."""
    taken = read(start="start")
    wait_for(lambda: are_read(taken))
    pair[0].append_unseen([B1])
    pair[0].append([A1], b=20)
    wait_for(lambda: A1 in taken.entries)
    assert taken.promises == {}
    pair[1].append([A1, B1], b=15)
    wait_for(lambda: taken.promises == {"b": 20})
    assert taken.entries == [A1, B1]


def test_a_gap_in_all_copies_is_told(pair: tuple[LogNode, LogNode], read: Any) -> None:
    taken = read(start="start", deadline_s=1.5)
    wait_for(lambda: are_read(taken))
    for node in pair:
        node.append_unseen([B1])
        node.append([A1], b=20)
    wait_for(lambda: taken.is_over)
    assert isinstance(taken.error, StreamNotFound)
    assert "without a gap" in str(taken.error)


def test_without_following_it_ends_with_what_all_copies_have(
    pair: tuple[LogNode, LogNode], replicas: Connections
) -> None:
    pair[0].append([A1, A2])
    pair[1].append([A2, A3])
    with replicas.subscribe("s", start="start", follow=False) as subscription:
        found = [entry for batch in subscription for entry in entries(batch)]
    assert sorted(found) == [A1, A2, A3]
    pair[1].close()
    with replicas.subscribe("s", start="start", follow=False) as subscription:
        found = [entry for batch in subscription for entry in entries(batch)]
    assert found == [A1, A2]
    pair[1].open()


def test_a_named_reader_goes_on_after_what_it_acknowledged_at_each_copy(
    pair: tuple[LogNode, LogNode], replicas: Connections
) -> None:
    """The second copy is behind: what it sends again lies below what the first had promised."""
    pair[0].append([A1], a=10)
    pair[0].append([A2], a=11)
    pair[1].append([A1], a=10)
    with replicas.subscribe("s", start="start", follow=False, reader="desk") as subscription:
        found = [entry for batch in subscription for entry in entries(batch)]
        subscription.acknowledge()
        assert found == [A1, A2]
    pair[1].append([A2, A3], a=12)
    with replicas.subscribe("s", start="start", follow=False, reader="desk") as subscription:
        assert [entry for batch in subscription for entry in entries(batch)] == [A3]
    assert [node.log.readers() for node in pair] == [{"desk": 2}, {"desk": 1}]


def test_what_waits_is_bounded(pair: tuple[LogNode, LogNode], replicas: Connections) -> None:
    for node in pair:
        with node.store.transaction() as transaction:
            for number in range(1, 400):
                transaction.append("s", stored([("a", number, number)]), {"a": number}, now_us=0)
    with replicas.subscribe("s", start="start") as subscription:
        iterator = iter(subscription)
        next(iterator)
        assert subscription._news.qsize() <= 4
        found = 1
        while found < 399:
            found += len(entries(next(iterator)))
        assert len(subscription._known.remembered) < 200


def test_nobody_there_is_told_after_the_deadline(tmp_path: Path) -> None:
    one, other = LogNode(tmp_path, "m"), LogNode(tmp_path, "n")
    with connect([one.address, other.address], timeout_s=HANG_S) as replicas:
        with pytest.raises(StreamNotFound, match="nonsense"):
            replicas.subscribe("nonsense", start="start")
        one.close()
        other.close()
        with pytest.raises(NodeUnreachable, match=one.address):
            replicas.subscribe("s", start="start", deadline_s=0.3)


@pytest.mark.parametrize(
    ("options", "why"),
    [({"start": "x:1"}, "several copies"), ({"start": "end", "reader": "desk"}, "cannot begin at the end")],
)
def test_what_cannot_be_with_several_copies(replicas: Connections, options: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        replicas.subscribe("s", **options)


def test_a_node_is_named_once() -> None:
    with pytest.raises(ConfigError, match="each node once"):
        connect(["127.0.0.1:1", "127.0.0.1:1"])


def test_closing_the_connection_ends_the_threads(pair: tuple[LogNode, LogNode]) -> None:
    with connect([node.address for node in pair]) as replicas:
        subscription = replicas.subscribe("s", start="start")
        assert isinstance(subscription, RacingSubscription)
        names = {f"copy at {node.address}" for node in pair}
        assert names <= {thread.name for thread in threading.enumerate()}
    wait_for(lambda: not names & {thread.name for thread in threading.enumerate()})

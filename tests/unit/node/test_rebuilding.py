"""A replica without its state takes that of a peer: all of it or nothing, and nothing is lost or read twice."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, StateError
from anabranch.model.names import replica_reader
from anabranch.node.rebuilding import write_pieces
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyReservation, SnapshotPiece
from tests.unit.node.replicas import SOURCE, Replica, Upstream, diagram, numbers_in
from tests.unit.node.test_snapshot import assert_fits_together
from tests.waiting import wait_for


class Pair:
    """An upstream node and two replicas, of which b has read and a is to be rebuilt."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        self._opened = opened
        self.upstream = Upstream(directory / "u.db", ("a", "b"))
        opened.callback(self.upstream.close)
        self.b = Replica(directory / "b", self.upstream, {"a": "127.0.0.1:1"})
        self.path = directory / "a"

    def open(self, replica: Replica, **how: object) -> Replica:
        replica.open(**how)  # type: ignore[arg-type]
        self._opened.callback(replica.close)
        return replica

    def a(self) -> Replica:
        return Replica(self.path, self.upstream, {"b": self.b.server.address})

    def rebuild(self) -> tuple[Replica, str]:
        """Returns a, rebuilt and not opened, and its life."""
        node = self.a()
        directory = node.directory_of()
        assert node.rebuilding(directory).if_empty()
        return node, directory.life


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as opened:
        yield Pair(tmp_path, opened)


def work_through(node: Replica, count: int) -> None:
    node.upstream.append(count)
    wait_for(lambda: node.journal.last_id() == node.upstream.log.last_id())
    node.run_batches()


def test_a_rebuilt_replica_goes_on_where_its_peer_was_and_reads_nothing_twice(pair: Pair) -> None:
    b = pair.open(pair.b)
    for _ in range(5):
        work_through(b, 4)
    a, life = pair.rebuild()
    assert assert_fits_together(a.path) == 20
    pair.upstream.append(4)
    wait_for(lambda: b.journal.last_id() == 24)
    pair.open(a)
    assert a.directory.life == life
    wait_for(lambda: a.journal.last_id() == 24)
    a.run_batches()
    assert numbers_in(a.output) == list(range(1, 25))
    assert a.reasons == []


def test_nothing_is_trimmed_upstream_between_the_snapshot_and_the_first_read(pair: Pair) -> None:
    """The place is reserved, under the new life, before the snapshot is taken."""
    reader = replica_reader("a")
    reserved: list[str | None] = []
    b = pair.open(pair.b, gather=lambda: reserved.append(pair.upstream.served.readers[reader].life))
    work_through(b, 8)
    a, life = pair.rebuild()
    assert reserved == [life]
    work_through(b, 8)
    wait_for(lambda: pair.upstream.served.readers[replica_reader("b")].acknowledged == 16)
    pair.upstream.copies.trim()
    assert pair.upstream.log.first_id() <= 9  # all that a lacks
    pair.open(a)
    wait_for(lambda: a.journal.last_id() == 16)
    wait_for(lambda: (pair.upstream.copies.trim(), pair.upstream.log.first_id() == 17)[1])


def test_what_was_the_peers_becomes_its_own(pair: Pair) -> None:
    b = pair.open(pair.b)
    work_through(b, 4)
    for store in b.stores.values():
        with store.transaction() as transaction:
            for name in store.logs:
                transaction.add_reader(name, "dashboard", at_seq=0)
                transaction.add_reader(name, "writer:file", at_seq=0)
    a, life = pair.rebuild()
    assert life != b.directory.life
    pair.open(a)
    for mine, peers in zip(a.stores.values(), b.stores.values(), strict=True):
        for name, log in mine.logs.items():
            assert log.incarnation != peers.log(name).incarnation
            assert log.readers().keys() == peers.log(name).readers().keys() - {"dashboard", "writer:file"}
    assert a.served.readers[replica_reader("end")] == b.served.readers[replica_reader("end")]
    for stage, peers_stage in zip(a.stages, b.stages, strict=True):
        assert stage.lineage != peers_stage.lineage  # Spark would end one of two queries with the same id
        last = stage.store.last_batch()
        assert last is not None
        assert last.lineage == stage.lineage


KILLS = [(name, 1) for name in failpoints.REBUILD_NAMES] + [("rebuild.installing", times) for times in (2, 3, 4)]


@pytest.mark.parametrize(("where", "times"), KILLS)
def test_a_kill_leaves_the_old_state_or_the_new_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, where: str, times: int
) -> None:
    b = pair.open(pair.b)
    work_through(b, 4)
    a = pair.a()
    directory = a.directory_of()
    old = directory.life
    reached: list[str] = []

    class Killed(BaseException):
        pass

    def reach(name: str) -> None:
        reached.append(name)
        if reached.count(where) == times:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reach", reach)
        with pytest.raises(Killed):
            a.rebuilding(directory).if_empty()
    again = a.directory_of()
    if where == "rebuild.arrived":
        assert again.life == old
        assert not any((a.path / "inlets").iterdir())
        assert a.rebuilding(again).if_empty()
    assert again.life != old
    assert assert_fits_together(a.path) == 4
    assert sorted(path.name for path in a.path.iterdir()) == [
        *("checkpoints", "inlets", "query.json", "sources", "stages"),
    ]
    pair.open(a)
    work_through(a, 4)
    assert numbers_in(a.output) == list(range(1, 9))


def test_a_new_deployment_begins_with_nothing(pair: Pair) -> None:
    b = pair.open(pair.b)
    wait_for(lambda: b.follower.is_live)
    a = pair.a()
    directory = a.directory_of()
    assert not a.rebuilding(directory).if_empty()  # b has read nothing
    alone = Replica(pair.path, pair.upstream, {"b": f"127.0.0.1:{_closed_port()}"})
    directory = alone.directory_of()
    assert not alone.rebuilding(directory).if_empty()  # nobody is there


def test_a_replica_with_state_is_not_rebuilt_at_its_start(pair: Pair) -> None:
    b = pair.open(pair.b)
    work_through(b, 4)
    a, life = pair.rebuild()
    directory = a.directory_of()
    assert not a.rebuilding(directory).if_empty()
    assert directory.life == life


def test_a_replica_with_writers_is_rebuilt_only_if_it_is_known_to_have_lost_something(pair: Pair) -> None:
    """If it is new, its writers must begin with the first tuple, and not with what a peer still holds."""
    b = pair.open(pair.b)
    work_through(b, 4)
    a = pair.a()
    a.writers = ["jsonl:sums.jsonl"]
    directory = a.directory_of()
    assert not a.rebuilding(directory).if_empty()
    assert a.rebuilding(directory).until_done()
    pair.open(a)
    assert [json.loads(store.get("writers of a replaced log") or b"") for store in a.stores.values()] == [a.writers] * 3


def test_replicas_that_have_all_lost_their_state_say_so(pair: Pair) -> None:
    pair.open(pair.b)
    a = pair.a()
    directory = a.directory_of()
    with pytest.raises(StateError, match=r"so has every node that it could be rebuilt from: b.*\n?.*Start over"):
        a.rebuilding(directory).until_done()


def test_a_replica_waits_for_a_peer_that_is_away(pair: Pair) -> None:
    tries = iter([False] * 6 + [True] * 9)
    a = Replica(pair.path, pair.upstream, {"b": f"127.0.0.1:{_closed_port()}"})
    directory = a.directory_of()
    assert not a.rebuilding(directory, stopped=lambda: next(tries)).until_done()
    assert "nothing listens there" in a.said[-1]


def test_a_peer_with_another_query_is_not_taken(pair: Pair) -> None:
    b = pair.open(pair.b)
    work_through(b, 4)
    a = pair.a()
    directory = a.directory_of(diagram("20s"))
    rebuilding = a.rebuilding(directory)
    assert not rebuilding.if_empty()
    assert isinstance(rebuilding._last_error, ConfigError)
    assert "window" in str(rebuilding._last_error)


def test_a_copy_that_does_not_answer_is_gone_on_without(pair: Pair) -> None:
    """It will take the rebuilt one for a reader that nobody knows."""
    b = pair.open(pair.b)
    work_through(b, 4)
    a = pair.a()
    a.part.upstream[SOURCE]["u"] = f"127.0.0.1:{_closed_port()}"  # type: ignore[index]
    directory = a.directory_of()
    assert a.rebuilding(directory).if_empty()
    assert assert_fits_together(a.path) == 4


def test_a_damaged_or_strange_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"stages/x\.db of a peer arrived damaged"):
        write_pieces(iter([SnapshotPiece(path="stages/x.db", bytes=b"ab", digest="0" * 64)]), tmp_path)
    for path in ("../x", "/etc/x", "stages/../../x", "query.json", ""):
        with pytest.raises(ConfigError, match="not part of a node's state"):
            write_pieces(iter([SnapshotPiece(path=path, bytes=b"", digest=None)]), tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["x.db"]


def test_a_snapshot_of_several_messages_arrives_whole(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    b = pair.open(pair.b)
    monkeypatch.setattr("anabranch.limits.SNAPSHOT_PIECE_BYTES", 1_000)
    work_through(b, 500)
    a, _ = pair.rebuild()
    store = Store.open(a.path / "inlets" / "events.db")
    assert numbers_in(store.log(SOURCE)) == numbers_in(b.journal)
    store.close()


def test_the_state_of_an_older_life_goes(pair: Pair) -> None:
    """As for a replica that was cut off: what it has is of no use."""
    b = pair.open(pair.b)
    work_through(b, 4)
    a, first = pair.rebuild()
    shutil.rmtree(a.path / "checkpoints" / "sums" / "state")
    work_through(b, 4)
    directory = a.directory_of()
    assert a.rebuilding(directory).until_done()
    assert directory.life != first
    assert json.loads((a.path / "query.json").read_text())["life"] == directory.life
    assert assert_fits_together(a.path) == 8


def test_a_reservation_holds_the_log_for_a_reader_that_begins_again(pair: Pair) -> None:
    b = pair.open(pair.b)
    a = pair.open(pair.a())
    work_through(b, 8)
    wait_for(lambda: pair.upstream.served.readers[replica_reader("a")].acknowledged == 8)
    said = CopyReservation(
        stream=SOURCE,
        reader=replica_reader("a"),
        life="another",
        like=replica_reader("b"),
        like_life=b.directory.life,
        position=None,
    )
    with Client(pair.upstream.server.address) as client:
        client.reserve_copy(said)
    assert pair.upstream.served.readers[replica_reader("a")].acknowledged == 0
    pair.upstream.copies.trim()
    assert pair.upstream.log.first_id() == 1
    assert a.reasons == []


def _closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

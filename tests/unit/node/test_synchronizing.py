"""Output that is held until a partner has its determinants: real logs, and a partner behind a real Flight server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.errors import NodeUnreachable, StreamNotFound
from anabranch.model.names import replica_reader
from anabranch.node.copying import Copies
from anabranch.node.dialer import Dialer, direct
from anabranch.node.serving import ServedLog
from anabranch.node.synchronizing import Synchronizing
from anabranch.runtime.status import DeterminantsStatus
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyRequest, Determinants
from anabranch.transport.server import FlightServer
from tests.unit.node.replicas import ORIGIN, SOURCE, create, rows
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import HANG_S, wait_for

READER = replica_reader("osu")


class Partner:
    """A backup that confirms when it is told to."""

    def __init__(self, port: int = 0, *, confirms: bool = True) -> None:
        self.synchronizing = Synchronizing("purdue", {"wisc": "unused"}, Dialer(direct))
        self.asked = threading.Event()
        self.confirms = threading.Event()
        self.is_dead = False
        if confirms:
            self.confirms.set()
        self.server = FlightServer(FakeNode(), port=port, determinants=self)

    def keep_determinants(self, said: Determinants) -> None:
        self.asked.set()
        self.confirms.wait(HANG_S)
        if self.is_dead:
            raise NodeUnreachable("The connection has ended.")
        self.synchronizing.keep_determinants(said)

    def kept(self) -> list[int]:
        """The numbers of the tuples, in the order in which they were told."""
        return [tid for each in self.synchronizing.kept("wisc", SOURCE) for tid in each.tids]

    def die(self) -> None:
        """Also in the middle of a call, which then fails as one to a killed process does."""
        self.is_dead = True
        self.confirms.set()
        self.server.stop()


class Primary:
    """A log that is read downstream; ``came`` is what its reader has been sent."""

    def __init__(self, path: Path, partner: str) -> None:
        self.dialer = Dialer(direct)
        self.synchronizing = Synchronizing("wisc", {"purdue": partner}, self.dialer)
        self.store = Store.open(path)
        self.log = create(self.store, SOURCE)
        served = ServedLog(self.store, self.log, [READER], clock=lambda: 0)
        self.copies = Copies({SOURCE: served}, held=self.synchronizing.held)
        self.synchronizing.open(self.log)
        self.came: list[int] = []
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def append(self, count: int) -> None:
        first = self.log.last_id() + 1
        with self.store.transaction() as transaction:
            transaction.append(SOURCE, rows(first, count), {ORIGIN: first + count - 1}, now_us=0)

    def leave(self) -> None:
        """The reader wants no more."""
        self._ended.set()
        self._reader.join(HANG_S)
        assert not self._reader.is_alive()

    def close(self) -> None:
        self.synchronizing.close()
        self.dialer.close()
        self.leave()
        self.synchronizing.join()
        self.store.close()

    def _read(self) -> None:
        request = CopyRequest(stream=SOURCE, reader=READER, life="life", position=None, punctuations={})
        _, pieces = self.copies.read_copy(request, self._ended.is_set)
        for piece in pieces:
            self.came += piece.rows.column("x").to_pylist()


@pytest.fixture
def slow() -> Iterator[Partner]:
    partner = Partner(confirms=False)
    yield partner
    partner.die()


def test_nothing_is_sent_before_the_partner_has_confirmed(tmp_path: Path, slow: Partner) -> None:
    with closing(Primary(tmp_path / "log", slow.server.address)) as primary:
        primary.append(3)
        assert slow.asked.wait(HANG_S)
        assert primary.came == []
        slow.confirms.set()
        wait_for(lambda: primary.came == [1, 2, 3], lambda: primary.came)
        assert slow.kept() == [1, 2, 3]
        facts = primary.synchronizing.statistics()[SOURCE]["purdue"]
        assert facts == DeterminantsStatus(confirmed=3, error=None, kept=0)


def test_the_hold_ends_when_the_partner_is_gone(tmp_path: Path, slow: Partner) -> None:
    with closing(Primary(tmp_path / "log", slow.server.address)) as primary:
        primary.append(3)
        assert slow.asked.wait(HANG_S)
        assert primary.came == []
        slow.die()
        wait_for(lambda: primary.came == [1, 2, 3], lambda: primary.came)
        primary.append(2)
        wait_for(lambda: primary.came == [1, 2, 3, 4, 5], lambda: primary.came)
        assert primary.synchronizing.statistics()[SOURCE]["purdue"].error is not None


def test_a_partner_that_is_back_is_told_what_it_missed_and_waited_for_again(tmp_path: Path) -> None:
    first = Partner()
    port = first.server.port
    with closing(Primary(tmp_path / "log", first.server.address)) as primary:
        primary.append(1)
        wait_for(lambda: first.kept() == [1], first.kept)
        first.die()
        primary.append(1)
        wait_for(lambda: primary.came == [1, 2], lambda: primary.came)
        second = Partner(port)
        wait_for(lambda: second.kept() == [2], second.kept)
        wait_for(lambda: not primary.synchronizing.statistics()[SOURCE]["purdue"].error)  # the answer has been heard
        second.asked.clear()
        second.confirms.clear()
        primary.append(1)
        assert second.asked.wait(HANG_S)
        assert primary.came == [1, 2]
        second.die()


def test_a_node_that_is_no_partner_is_refused() -> None:
    partner = Partner()
    said = Determinants(sender="mit", stream=SOURCE, incarnation="a", first_id=1, tids=[1], times_us=[1], origins=[0])
    with Client(partner.server.address) as client, pytest.raises(StreamNotFound, match="'mit' is no partner"):
        client.keep_determinants(said)
    partner.die()


def test_a_node_without_partners_keeps_no_determinants() -> None:
    said = Determinants(sender="wisc", stream=SOURCE, incarnation="a", first_id=1, tids=[], times_us=[], origins=[])
    with (
        FlightServer(FakeNode()) as server,
        Client(server.address) as client,
        pytest.raises(StreamNotFound, match="keeps no determinants"),
    ):
        client.keep_determinants(said)


def test_a_reader_that_is_over_is_let_go(tmp_path: Path, slow: Partner) -> None:
    with closing(Primary(tmp_path / "log", slow.server.address)) as primary:
        primary.append(1)
        assert slow.asked.wait(HANG_S)
        primary.leave()
        assert primary.came == []
        slow.die()

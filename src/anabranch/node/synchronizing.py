"""Synchronization by determinants, for comparison with racing: output is held until the backup could make it again.

As section 2.2 of the racing paper describes the earlier primary/backup techniques: a primary postpones its output until
its backup has all that it needs to make the same output in the same order. The *determinants* of a log are the
identities of its tuples, in their order. Each replica tells them to its partners, which keep them and confirm; what
replicas downstream are sent of a log ends where the last is confirmed. Both replicas send, so that each is the backup
of the other.

A partner that cannot be reached is not waited for: what is held goes out at once. It is told all that it has missed
when it is back, as far as the log still holds it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from anabranch import limits
from anabranch.core.backoff import RECONNECT
from anabranch.errors import AnabranchError, StreamNotFound
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.node.dialer import Dialer
from anabranch.runtime.status import DeterminantsStatus
from anabranch.storage.log import Log
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyPiece, Determinants

STOP_S: Final = 2.0
"""How long a stop waits for the message under way."""


class Synchronizing:
    """The logs of a node that others read; ``partners`` do the same as this node, at these addresses. Any thread may
    use it."""

    def __init__(self, node: str, partners: Mapping[str, str], dialer: Dialer) -> None:
        self._node = node
        self._partners = dict(partners)
        self._dialer = dialer
        self._news = threading.Condition()
        self._stopping = threading.Event()
        self._telling: dict[str, list[_Telling]] = {}
        self._kept: dict[tuple[str, str], deque[Determinants]] = {}

    # --- as a primary ----------------------------------------------------------------------------------------------

    def open(self, log: Log) -> None:
        """From now on the partners are told the determinants of this log."""
        telling = self._telling[log.name] = [
            _Telling(self._node, partner, self._dialer.client(partner, address), log, self._news, self._stopping)
            for partner, address in self._partners.items()
        ]
        for each in telling:
            each.start()

    def held(self, stream: str, pieces: Iterator[CopyPiece], over: Callable[[], bool]) -> Iterator[CopyPiece]:
        """The same pieces, each when it may be seen."""
        for piece in pieces:
            last_id = piece.first_id + piece.rows.num_rows - 1
            with self._news:
                while not self._may_see(stream, last_id) and not over() and not self._stopping.is_set():
                    self._news.wait(limits.FOLLOW_WAIT_S)
            if over() or self._stopping.is_set():
                return
            yield piece

    def _may_see(self, stream: str, last_id: int) -> bool:
        return all(each.lets_pass(last_id) for each in self._telling.get(stream, ()))

    def close(self) -> None:
        """Nothing is told or sent any more; ``join`` waits for what is under way."""
        self._stopping.set()
        with self._news:
            self._news.notify_all()

    def join(self) -> None:
        for telling in self._telling.values():
            for each in telling:
                each.join()

    def statistics(self) -> dict[str, dict[str, DeterminantsStatus]]:
        """Per stream and partner: up to which tuple the determinants are confirmed, or why nobody waits for that; and
        of how many tuples of the partner they are kept here."""
        return {
            stream: {
                each.partner: each.statistics(sum(len(said.tids) for said in self.kept(each.partner, stream)))
                for each in telling
            }
            for stream, telling in list(self._telling.items())
        }

    # --- as a backup -----------------------------------------------------------------------------------------------

    def keep_determinants(self, said: Determinants) -> None:
        if said.sender not in self._partners:
            known = ", ".join(sorted(self._partners))
            raise StreamNotFound(f"{said.sender!r} is no partner of this node.", remedy=f"Its partners: {known}.")
        kept = self._kept.setdefault((said.sender, said.stream), deque(maxlen=limits.DETERMINANTS_KEPT))
        kept.append(said)

    def kept(self, sender: str, stream: str) -> tuple[Determinants, ...]:
        """The latest that a partner has told of one of its logs, oldest first."""
        return tuple(self._kept.get((sender, stream), ()))


class _Telling:
    """What one partner is told of one log, and how much of it is confirmed."""

    def __init__(
        self, node: str, partner: str, client: Client, log: Log, news: threading.Condition, stopping: threading.Event
    ) -> None:
        self.partner: Final = partner
        self._node = node
        self._client = client
        self._log = log
        self._news = news
        self._stopping = stopping
        self._confirmed = log.first_id() - 1
        self._failure: AnabranchError | None = None
        self._thread = threading.Thread(target=self._run, name=f"determinants of {log.name} to {partner}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """A call to a partner that hangs is left to itself."""
        self._thread.join(STOP_S)

    def lets_pass(self, last_id: int) -> bool:
        return last_id <= self._confirmed or self._failure is not None

    def statistics(self, kept: int) -> DeterminantsStatus:
        failure = self._failure
        error = None if failure is None else str(failure)
        return DeterminantsStatus(confirmed=self._confirmed, error=error, kept=kept)

    def _run(self) -> None:
        seq, backoff = self._log.first_seq() - 1, RECONNECT
        while not self._stopping.is_set():
            if not self._log.wait_beyond(seq, limits.FOLLOW_WAIT_S):
                continue
            try:
                seq, backoff = self._tell(seq), RECONNECT
            except AnabranchError as error:
                self._note(self._confirmed, error)
                backoff = backoff.failed()
                self._stopping.wait(backoff.wait_s)

    def _tell(self, seq: int) -> int:
        """What came after this segment. Returns the last segment that the partner has confirmed."""
        seq = max(seq, self._log.first_seq() - 1)  # what is trimmed was sent
        end = self._log.latest_seq(seq, limits.DETERMINANTS_ROWS)
        try:
            segments = list(self._log.read(seq, end))
        except StreamNotFound:  # trimmed this moment
            return self._log.first_seq() - 1
        headers = [each.rows.select([TID, STIME, ORIGIN]) for each in segments if each.rows is not None]
        if headers:
            first_id = segments[0].first_id
            rows = pa.Table.from_batches(headers)
            self._client.keep_determinants(self._determinants(first_id, rows))
            self._note(first_id + rows.num_rows - 1, None)
        return end

    def _determinants(self, first_id: int, rows: pa.Table) -> Determinants:
        return Determinants(
            sender=self._node,
            stream=self._log.name,
            incarnation=self._log.incarnation,
            first_id=first_id,
            tids=rows.column(TID).to_pylist(),
            times_us=rows.column(STIME).cast(pa.int64()).to_pylist(),
            origins=rows.column(ORIGIN).to_pylist(),
        )

    def _note(self, confirmed: int, failure: AnabranchError | None) -> None:
        with self._news:
            self._confirmed, self._failure = confirmed, failure
            self._news.notify_all()

"""A log that replicas on other nodes read: how far each has it, what it may forget, and what that costs a reader.

``core.Readers`` decides; this class gives it what the store holds, and carries out what it says in one transaction:
trimming and floors change together. An acknowledgement only counts in memory until the next transaction: after a crash
a reader acknowledges again, and a log that knows too little keeps too much.

Others read the log too, by segments: stages and writers of the node, which are never cut off, and named clients, which
may be. Nothing is trimmed that one of them has not read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from anabranch.core.readers import (
    AnswerSubscription,
    CutOff,
    Event,
    Mark,
    PositionReserved,
    Reader,
    ReaderAcknowledged,
    ReaderForgotten,
    Readers,
    ReadersState,
    ReaderSubscribed,
    TrimDue,
    TrimThrough,
)
from anabranch.model.punctuation import Punctuations
from anabranch.storage.log import Log
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction


class ServedLog:
    """One log and the replicas that read it; ``readers`` are those of the deployment. Any thread may use it."""

    def __init__(self, store: Store, log: Log, readers: Iterable[str], *, clock: Callable[[], int]) -> None:
        self._store = store
        self.log: Final = log
        self._clock = clock
        self._rules = Readers(log.name)
        self._lock = threading.Lock()
        stored = store.get(_key(log.name))
        self._readers, self._trimmed = _decoded(stored) if stored is not None else ({}, {})
        declared = {name: self._readers.get(name, Reader(floors=self._trimmed)) for name in readers}
        with store.transaction() as transaction:
            self._write(transaction, declared, self._trimmed)
        self._readers = declared

    @property
    def readers(self) -> Mapping[str, Reader]:
        """As they are known now; what was acknowledged since the last transaction included."""
        return dict(self._readers)

    def is_cut_off(self, reader: str) -> bool:
        """Whether the reader does not count now; one that nobody knows does not, either."""
        known = self._readers.get(reader)
        return known is None or known.cut_off

    def subscribed(self, event: ReaderSubscribed) -> AnswerSubscription:
        """A replica wants to read; what it is told is durable."""
        (answer,) = self._handle(event)
        assert isinstance(answer, AnswerSubscription)
        return answer

    def reserved(self, event: PositionReserved) -> None:
        """A replica is about to be rebuilt; its place is kept, durably."""
        self._handle(event)

    def forgotten(self, reader: str) -> None:
        """A replica was taken out of the deployment."""
        self._handle(ReaderForgotten(reader=reader))

    def renewed(self, floors: Punctuations) -> None:
        """Some tuples below these times will never be in the log. It begins a new incarnation, and no reader is vouched
        for below them."""
        with self._lock:
            with self._store.transaction() as transaction:
                transaction.begin_incarnation(self.log.name, floors)
                trimmed = _raised(self._trimmed, floors)
                readers = {
                    name: replace(reader, floors=_raised(reader.floors, floors))
                    for name, reader in self._readers.items()
                }
                self._write(transaction, readers, trimmed)
            self._readers, self._trimmed = readers, trimmed

    def acknowledged(self, event: ReaderAcknowledged) -> None:
        with self._lock:
            state, _ = self._rules.handle(self._state(), event)
            self._readers = dict(state.readers)

    def trim(
        self, *, full: bool, keep: Set[str] = frozenset(), fragment_of: Mapping[str, str] = MappingProxyType({})
    ) -> list[str]:
        """Deletes what every reader that counts has; cuts off the slowest if the log is full. Returns those cut off.

        Readers in ``keep`` are the node's own, without which it could not go on; ``fragment_of`` has what replicas
        run. A bounded number of segments at a time: call it again while there are more.
        """
        with self._lock, self._store.transaction() as transaction:
            own = {name: seq for name, seq in self.log.readers().items() if name not in self._readers}
            oldest = [
                each for each in transaction.oldest(self.log.name) if each.seq <= min(own.values(), default=each.seq)
            ]
            local = {name: Reader(acknowledged=self.log.id_at(seq)) for name, seq in own.items()}
            state = replace(
                self._state(),
                marks=tuple(Mark(last_id=each.last_id, tops=each.tops) for each in oldest),
                readers={**self._readers, **local},
            )
            state, actions = self._rules.handle(
                state, TrimDue(full=full, keep=frozenset(keep), fragment_of=fragment_of)
            )
            readers = {name: reader for name, reader in state.readers.items() if name not in own}
            cut_off = [action.reader for action in actions if isinstance(action, CutOff)]
            for reader in own.keys() & set(cut_off):
                transaction.cut_off(self.log.name, reader, now_us=self._clock())
            for action in actions:
                if isinstance(action, TrimThrough):
                    last_seq = max(each.seq for each in oldest if each.last_id <= action.last_id)
                    transaction.trim_through(self.log.name, last_seq)
            self._write(transaction, readers, state.trimmed)
        self._readers, self._trimmed = readers, state.trimmed
        return cut_off

    def _handle(self, event: Event) -> list[Any]:
        with self._lock:
            with self._store.transaction() as transaction:
                state, actions = self._rules.handle(self._state(), event)
                readers = dict(state.readers)
                self._write(transaction, readers, self._trimmed)
            self._readers = readers
        return actions

    def _state(self) -> ReadersState:
        """For all but trimming it is enough to know where the log ends."""
        return ReadersState(
            incarnation=self.log.incarnation,
            trimmed_id=self.log.first_id() - 1,
            marks=(Mark(last_id=self.log.last_id()),),
            readers=self._readers,
            trimmed=self._trimmed,
        )

    def _write(self, transaction: Transaction, readers: Mapping[str, Reader], trimmed: Punctuations) -> None:
        """With what the store itself must know: how far those have read who hold the log back."""
        name = self.log.name
        known = self.log.readers()
        for reader in self._readers.keys() - readers.keys():
            transaction.remove_reader(name, reader)
        for reader, facts in readers.items():
            if facts.cut_off:
                transaction.remove_reader(name, reader)
                continue
            seq = self.log.seq_before_id(max(facts.acknowledged + 1, self.log.first_id()))
            if reader in known and seq < known[reader]:  # it has less than it had: it was rebuilt
                transaction.remove_reader(name, reader)
            transaction.add_reader(name, reader, at_seq=transaction.held_seq(name, seq))
            transaction.acknowledge(name, reader, transaction.held_seq(name, seq))
        transaction.put(_key(name), _encoded(readers, trimmed))


def _raised(floors: Punctuations, by: Punctuations) -> Punctuations:
    return {**floors, **{origin: max(floor, floors.get(origin, 0)) for origin, floor in by.items()}}


def _key(log: str) -> str:
    return f"readers {log}"


def _encoded(readers: Mapping[str, Reader], trimmed: Punctuations) -> bytes:
    facts = {
        name: {
            "life": reader.life,
            "acknowledged": reader.acknowledged,
            "floors": dict(reader.floors),
            "cut_off": reader.cut_off,
        }
        for name, reader in readers.items()
    }
    return json.dumps({"readers": facts, "trimmed": dict(trimmed)}).encode()


def _decoded(stored: bytes) -> tuple[dict[str, Reader], Punctuations]:
    facts: dict[str, Any] = json.loads(stored)
    return {name: Reader(**reader) for name, reader in facts["readers"].items()}, facts["trimmed"]

"""One contract for a log that replicas read, kept by the simulated one and by the one on disk.

The simulator proves the protocol with its own logs; this shows that the real ones say and keep the same, step by step.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.core.readers import (
    AnswerSubscription,
    CutOff,
    PositionReserved,
    Reader,
    ReaderAcknowledged,
    ReaderForgotten,
    ReaderSubscribed,
    TrimDue,
)
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node.serving import ServedLog
from anabranch.reference.tuples import Tuple
from anabranch.sim.tape import Tape
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

ORIGINS = ("a", "b")
READERS = ("m", "n", "o")
STAGE = "stage:own"
Row = tuple[str, int, int]
Found = tuple[tuple[Row, ...], Punctuations]


class Served(ABC):
    """A log with its readers, and a stage of the same node, ``STAGE``, that reads it too."""

    incarnation: str
    readers: dict[str, Reader]

    @abstractmethod
    def append(self, rows: list[Row], promises: Punctuations) -> None: ...

    @abstractmethod
    def subscribed(self, event: ReaderSubscribed) -> AnswerSubscription: ...

    @abstractmethod
    def acknowledged(self, event: ReaderAcknowledged) -> None: ...

    @abstractmethod
    def reserved(self, event: PositionReserved) -> None: ...

    @abstractmethod
    def forgotten(self, reader: str) -> None: ...

    @abstractmethod
    def stage_has_all(self) -> None: ...

    @abstractmethod
    def trim(self, *, full: bool) -> list[str]: ...

    @abstractmethod
    def restart(self) -> None: ...

    @abstractmethod
    def after(self, last_id: int) -> Found:
        """The rows that come after this one, and what had been promised there."""

    @property
    @abstractmethod
    def ids(self) -> tuple[int, int]:
        """The first row that is held, and the last."""


class Simulated(Served):
    def __init__(self) -> None:
        self.incarnation = "i"
        self._tape = Tape.new("s", "i", [*READERS, STAGE])

    @property
    def readers(self) -> dict[str, Reader]:  # type: ignore[override]
        return {name: reader for name, reader in self._tape.readers.readers.items() if name != STAGE}

    def append(self, rows: list[Row], promises: Punctuations) -> None:
        self._tape = self._tape.append([Tuple(origin=o, stime=t, tid=n, values={}) for o, t, n in rows], promises)

    def subscribed(self, event: ReaderSubscribed) -> AnswerSubscription:
        self._tape, (answer,) = self._tape.handle(event)
        assert isinstance(answer, AnswerSubscription)
        return answer

    def acknowledged(self, event: ReaderAcknowledged) -> None:
        self._tape, _ = self._tape.handle(event)

    def reserved(self, event: PositionReserved) -> None:
        self._tape, _ = self._tape.handle(event)

    def forgotten(self, reader: str) -> None:
        self._tape, _ = self._tape.handle(ReaderForgotten(reader=reader))

    def stage_has_all(self) -> None:
        known = self._tape.readers.readers[STAGE]
        position = Position("i", self._tape.last_id)
        if known.life is None:
            self._tape, _ = self._tape.handle(ReaderSubscribed(reader=STAGE, life="own"))
        self._tape, _ = self._tape.handle(ReaderAcknowledged(reader=STAGE, life="own", position=position))

    def trim(self, *, full: bool) -> list[str]:
        self._tape, actions = self._tape.handle(TrimDue(full=full, keep=frozenset({STAGE})))
        return [action.reader for action in actions if isinstance(action, CutOff)]

    def restart(self) -> None:
        pass

    def after(self, last_id: int) -> Found:
        tuples = [each for segment in self._tape.segments for each in segment.tuples]
        rest = tuples[last_id - self._tape.readers.trimmed_id :]
        return tuple((each.origin, each.stime, each.tid) for each in rest), self._tape.promises_at(last_id)

    @property
    def ids(self) -> tuple[int, int]:
        return self._tape.readers.trimmed_id + 1, self._tape.last_id


class OnDisk(Served):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._store = Store.open(self._path)
        self._log = self._store.create_log(
            LogSpec(
                name="s",
                schema=pa.schema([]),
                origins=ORIGINS,
                kind="output",
                retention_us=1 << 60,
                limit_bytes=1 << 30,
            )
        )
        self.incarnation = self._log.incarnation
        with self._store.transaction() as transaction:
            transaction.add_reader("s", STAGE, at_seq=self._log.first_seq() - 1)
        self._served = ServedLog(self._store, self._log, READERS, clock=lambda: 0)

    @property
    def readers(self) -> dict[str, Reader]:  # type: ignore[override]
        return dict(self._served.readers)

    def append(self, rows: list[Row], promises: Punctuations) -> None:
        batch = pa.record_batch(
            {
                "_tid": pa.array([number for _, _, number in rows], pa.int64()),
                "_stime": pa.array([time for _, time, _ in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
                "_origin": pa.array([ORIGINS.index(origin) for origin, _, _ in rows], pa.int32()),
            }
        )
        with self._store.transaction() as transaction:
            transaction.append("s", batch if rows else None, promises, now_us=0)

    def subscribed(self, event: ReaderSubscribed) -> AnswerSubscription:
        return self._served.subscribed(event)

    def acknowledged(self, event: ReaderAcknowledged) -> None:
        self._served.acknowledged(event)

    def reserved(self, event: PositionReserved) -> None:
        self._served.reserved(event)

    def forgotten(self, reader: str) -> None:
        self._served.forgotten(reader)

    def stage_has_all(self) -> None:
        with self._store.transaction() as transaction:
            transaction.acknowledge("s", STAGE, self._log.end_seq())

    def trim(self, *, full: bool) -> list[str]:
        return self._served.trim(full=full, keep={STAGE})

    def restart(self) -> None:
        """After a clean stop: what was acknowledged last is durable with a transaction that came after it."""
        self._served.trim(full=False, keep={STAGE})
        self._store.close()
        self._open()

    def after(self, last_id: int) -> Found:
        seq = self._log.seq_before_id(last_id + 1)
        rows: list[Row] = []
        for segment in self._log.read(seq, self._log.end_seq()):
            if segment.rows is not None:
                kept = segment.rows.slice(max(0, last_id + 1 - segment.first_id))
                codes, numbers = kept.column("_origin").to_pylist(), kept.column("_tid").to_pylist()
                times = kept.column("_stime").cast(pa.int64()).to_pylist()
                rows += zip([ORIGINS[code] for code in codes], times, numbers, strict=True)
        return tuple(rows), self._log.punctuations_at(seq)

    @property
    def ids(self) -> tuple[int, int]:
        return self._log.first_id(), self._log.last_id()

    def holding(self) -> dict[str, int]:
        """What the store itself knows of the replicas that it waits for: the last row that each has."""
        return {name: self._log.id_at(seq) for name, seq in self._log.readers().items() if name != STAGE}

    def close(self) -> None:
        self._store.close()


@contextmanager
def on_disk() -> Iterator[OnDisk]:
    with tempfile.TemporaryDirectory() as directory:
        served = OnDisk(Path(directory) / "s.db")
        try:
            yield served
        finally:
            served.close()


@pytest.fixture(params=["simulated", "on disk"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    if request.param == "simulated":
        yield Simulated()
        return
    with on_disk() as made:
        yield made


def subscribe(served: Served, reader: str, life: str = "1", at: int | None = None) -> AnswerSubscription:
    position = None if at is None else Position(served.incarnation, at)
    return served.subscribed(ReaderSubscribed(reader=reader, life=life, position=position))


def acknowledge(served: Served, reader: str, last_id: int, life: str = "1", **punctuations: int) -> None:
    position = Position(served.incarnation, last_id)
    served.acknowledged(ReaderAcknowledged(reader=reader, life=life, position=position, punctuations=punctuations))


def test_it_forgets_what_all_have_and_nothing_else(served: Served) -> None:
    served.append([("a", 10, 1)], {})
    served.append([("a", 20, 2)], {"a": 15})
    served.stage_has_all()
    for reader in READERS:
        subscribe(served, reader)
        acknowledge(served, reader, 2 if reader == "m" else 1)
    assert served.trim(full=False) == []
    assert served.ids == (2, 2)
    assert served.after(1) == ((("a", 20, 2),), {})
    assert served.after(2) == ((), {"a": 15})
    served.restart()
    assert subscribe(served, "o", at=1).first_id == 2
    assert served.readers["o"].floors == {}


def test_the_slowest_is_cut_off_and_told_its_floors(served: Served) -> None:
    for number in (1, 2, 3):
        served.append([("a", 10 * number, number), ("b", number, number)], {})
    served.stage_has_all()
    for reader, last_id in zip(READERS, (6, 4, 1), strict=True):
        subscribe(served, reader)
        acknowledge(served, reader, last_id)
    assert served.trim(full=True) == ["o"]
    assert served.ids == (5, 6)
    served.restart()
    answer = subscribe(served, "o", at=1)
    assert (answer.first_id, answer.floors) == (5, {"a": 21, "b": 3})
    assert served.readers["o"].cut_off
    acknowledge(served, "o", 6, a=21, b=3)
    assert not served.readers["o"].cut_off


def test_a_stage_of_the_node_is_never_cut_off(served: Served) -> None:
    served.append([("a", 10, 1)], {})
    for reader in READERS:
        subscribe(served, reader)
        acknowledge(served, reader, 1)
    assert served.trim(full=True) == []
    assert served.ids == (1, 1)


def test_a_rebuilt_reader_finds_what_its_peer_had_not_read(served: Served) -> None:
    for number in (1, 2, 3):
        served.append([("a", number, number)], {})
    served.stage_has_all()
    for reader in READERS:
        subscribe(served, reader)
        acknowledge(served, reader, 3 if reader != "n" else 1)
    reserved = PositionReserved(reader="m", life="2", like="n", like_life="1", position=Position(served.incarnation, 1))
    served.reserved(reserved)
    acknowledge(served, "m", 3)  # news of its earlier life
    acknowledge(served, "n", 3)
    served.trim(full=False)
    assert served.ids == (2, 3)
    served.restart()
    assert subscribe(served, "m", life="2", at=1).first_id == 2


@given(seed=st.integers(0, 1 << 32))
def test_both_say_and_keep_the_same(seed: int) -> None:
    random = Random(seed)
    with on_disk() as real:
        both: tuple[Served, Served] = (Simulated(), real)
        promised = dict.fromkeys(ORIGINS, 0)
        number = 0
        for _ in range(random.randint(5, 40)):
            first_id, last_id = both[0].ids
            reader, life = random.choice(READERS), random.choice(("1", "1", "2"))
            at = random.randint(0, last_id)
            known = {origin: random.randint(0, 60) for origin in ORIGINS}
            step = random.choice(("append", "append", "subscribe", "ack", "ack", "reserve", "stage", "trim", "restart"))
            rows = []
            for _ in range(random.choice((0, 1, 1, 3))):
                number += 1
                origin = random.choice(ORIGINS)
                rows.append((origin, promised[origin] + random.randint(0, 9), number))
            full = random.random() < 0.5
            if step == "append":
                promised = {origin: time + random.choice((0, 0, 5)) for origin, time in promised.items()}
                rows = [(origin, max(time, promised[origin]), tid) for origin, time, tid in rows]
            like = random.choice([each for each in READERS if each != reader])
            results = []
            for each in both:
                position = Position(each.incarnation, at)
                if step == "append":
                    each.append(rows, {origin: time for origin, time in promised.items() if time})
                elif step == "subscribe":
                    event = ReaderSubscribed(reader=reader, life=life, position=position, punctuations=known)
                    answer = each.subscribed(event)
                    results.append((answer.first_id, answer.floors, answer.earlier_life))
                elif step == "ack":
                    acknowledge(each, reader, at, life, **known)
                elif step == "reserve":
                    each.reserved(
                        PositionReserved(reader=reader, life=life, like=like, like_life="1", position=position)
                    )
                elif step == "stage":
                    each.stage_has_all()
                elif step == "trim":
                    results.append(each.trim(full=full))
                elif step == "restart":
                    each.trim(full=False)
                    each.restart()
            assert len(results) != 2 or results[0] == results[1], step
            assert both[0].readers == both[1].readers, step
            assert both[0].ids == both[1].ids, step
            first_id, last_id = both[0].ids
            for place in {first_id - 1, random.randint(first_id - 1, last_id), last_id}:
                assert both[0].after(place) == both[1].after(place), step


def test_the_store_knows_who_holds_it_back() -> None:
    """By this it is full or not, and its statistics tell who is how far behind."""
    with on_disk() as served:
        for number in (1, 2, 3):
            served.append([("a", number, number)], {})
        served.stage_has_all()
        for reader, last_id in zip(READERS, (3, 2, 1), strict=True):
            subscribe(served, reader)
            acknowledge(served, reader, last_id)
        served.trim(full=True)
        assert served.holding() == {"m": 3, "n": 2}
        position = Position(served.incarnation, 2)
        served.reserved(PositionReserved(reader="m", life="2", like="n", like_life="1", position=position))
        assert served.holding() == {"m": 2, "n": 2}
        served.forgotten("n")
        assert served.holding() == {"m": 2}

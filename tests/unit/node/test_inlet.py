"""An inlet on a real journal lets each tuple through once, and a restart forgets nothing that it must remember."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import limits
from anabranch.core.inlet import (
    Acknowledge,
    CopyAnswered,
    Event,
    Inlet,
    InletState,
    Step,
    SubscribeAgain,
    TuplesArrived,
)
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node import inlet
from anabranch.node.inlet import INLET_READER, JournalInlet
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

ORIGINS = ("a", "b")
Entry = tuple[int, int, int]
"""Code of the origin, stream time, number."""


def spec() -> LogSpec:
    return LogSpec(
        name="s",
        schema=pa.schema([("x", pa.int64())]),
        origins=ORIGINS,
        kind="journal",
        retention_us=1 << 60,
        limit_bytes=1 << 30,
    )


def rows(entries: list[Entry]) -> pa.RecordBatch:
    codes, times, numbers = zip(*entries, strict=True) if entries else ((), (), ())
    return pa.record_batch(
        {
            "_tid": pa.array(numbers, pa.int64()),
            "_stime": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array(codes, pa.int32()),
            "x": pa.array([100 * time + number for time, number in zip(times, numbers, strict=True)], pa.int64()),
        }
    )


class Journal:
    """A store with one journal and its inlet, which can be opened again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.open()

    def open(self) -> None:
        self.store = Store.open(self._path)
        self.log = self.store.create_log(spec())
        self.inlet = JournalInlet(self.store, self.log, clock=lambda: 0)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def entries(self) -> list[Entry]:
        """All that is held, in order."""
        found: list[Entry] = []
        for segment in self.log.read(self.log.first_seq() - 1, self.log.end_seq()):
            if segment.rows is not None:
                columns = segment.rows.select(["_origin", "_stime", "_tid", "x"]).to_pydict()
                times = [int(time.timestamp() * 1_000_000) for time in columns["_stime"]]
                assert columns["x"] == [
                    100 * time + number for time, number in zip(times, columns["_tid"], strict=True)
                ]
                found += zip(columns["_origin"], times, columns["_tid"], strict=True)
        return found

    def answered(self, copy: str, first_id: int = 1, **floors: int) -> None:
        self.inlet.answered(CopyAnswered(copy=copy, incarnation="i", first_id=first_id, floors=floors))

    def arrived(self, copy: str, first_id: int, entries: list[Entry], **promises: int) -> list[object]:
        return [*self.inlet.arrived(copy, "i", first_id, rows(entries), promises)]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "s.db")
    yield journal
    journal.store.close()


def test_the_first_arrival_is_stored_and_acknowledged_from_either_copy(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    entries = [(0, 10, 1), (0, 11, 2), (1, 10, 1)]
    assert journal.arrived("m", 1, entries[:2]) == [Acknowledge(copy="m", position=Position("i", 2))]
    assert journal.arrived("n", 1, entries[::-1]) == [Acknowledge(copy="n", position=Position("i", 3))]
    assert journal.entries() == entries


def test_after_a_restart_a_tuple_is_still_a_repetition(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    journal.arrived("m", 1, [(0, 10, 1), (0, 11, 2)], a=5)
    before = journal.inlet.state
    journal.reopen()
    after = journal.inlet.state
    assert (after.copies, after.punctuations) == (before.copies, before.punctuations)
    journal.arrived("n", 1, [(0, 11, 2), (0, 12, 3)])
    journal.arrived("m", 2, [(0, 11, 2)])
    assert journal.entries() == [(0, 10, 1), (0, 11, 2), (0, 12, 3)]


def places(journal: Journal) -> dict[str, int]:
    """How far copies may be acknowledged."""
    return {copy: known.position.id for copy, known in journal.inlet.stored().copies.items()}


def test_what_is_known_already_waits_for_the_next_transaction(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inlet, "SMALL_ROWS", 0)  # small ones are put off
    for copy in ("m", "n"):
        journal.answered(copy)
    journal.arrived("m", 1, [(0, 10, 1), (0, 11, 2)], a=10)
    journal.arrived("n", 1, [(0, 10, 1)], a=10)
    assert places(journal) == {"m": 2, "n": 0}
    assert not journal.inlet.is_stored
    journal.arrived("m", 3, [(0, 12, 3)])
    assert places(journal) == {"m": 3, "n": 1}


def test_pieces_that_another_copy_has_brought_are_put_off_and_taken_together(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    handled: list[int] = []
    handle = Inlet.handle

    def counted(rules: Inlet, state: InletState, event: Event) -> Step:
        handled.append(len(event.header) if isinstance(event, TuplesArrived) else 0)
        return handle(rules, state, event)

    monkeypatch.setattr(Inlet, "handle", counted)
    for number in (1, 2, 3):
        for copy in ("m", "n"):
            told = journal.arrived(copy, number, [(0, number, number)], a=number)
            assert told == [Acknowledge(copy=copy, position=Position("i", number))]
    assert handled == [1, 1, 1]
    assert (places(journal), journal.inlet.is_stored) == ({"m": 3, "n": 0}, False)
    monkeypatch.setattr(inlet, "STORE_S", 0.0)
    assert (places(journal), journal.inlet.is_stored) == ({"m": 3, "n": 3}, True)
    assert handled == [1, 1, 1, 3]
    assert journal.entries() == [(0, 1, 1), (0, 2, 2), (0, 3, 3)]


def test_what_is_put_off_of_a_copy_is_bounded(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    for number in range(1, inlet.PUT_OFF_PIECES + 2):
        for copy in ("m", "n"):
            journal.arrived(copy, number, [(0, number, number)], a=number)
    assert len(journal.inlet._put_off["n"]) == 1
    assert len(journal.inlet._known) <= inlet.KNOWN_ROWS


def test_a_known_piece_that_promises_more_is_taken_at_once(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    journal.arrived("m", 1, [(0, 10, 1)], a=10)
    journal.arrived("n", 1, [(0, 10, 1)], a=11)
    assert journal.log.punctuations() == {"a": 11}
    journal.arrived("m", 2, [], a=11)
    journal.arrived("n", 2, [], a=12)
    assert journal.log.punctuations() == {"a": 12}


def test_a_hole_before_a_known_piece_is_noticed(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
    for number in (1, 2, 3):
        journal.arrived("m", number, [(0, number, number)], a=number)
    journal.arrived("n", 1, [(0, 1, 1)], a=1)
    assert journal.arrived("n", 3, [(0, 3, 3)], a=3) == [SubscribeAgain(copy="n")]


def test_a_copy_that_is_asked_again_is_asked_from_behind_what_was_put_off(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
        journal.arrived(copy, 1, [(0, 10, 1)], a=10)
    assert journal.inlet.settled().copies["n"].position == Position("i", 1)


class Stage:
    """One that reads the journal, and lets what comes wait or not."""

    def __init__(self) -> None:
        self.waits = True
        self.rung = 0
        self.hold = 0
        self.offered: Punctuations = {}

    def may_wait(self, stream: str, promises: Punctuations) -> bool:
        self.offered = dict(promises)
        return self.waits

    def hold_us(self) -> int:
        return self.hold

    def ring(self) -> None:
        self.rung += 1


@pytest.fixture
def stage(journal: Journal) -> Stage:
    stage = Stage()
    journal.inlet.read_by(stage)
    for copy in ("m", "n"):
        journal.answered(copy)
    return stage


def test_rows_that_no_stage_would_read_yet_share_a_transaction(journal: Journal, stage: Stage) -> None:
    for number in (1, 2, 3):
        for copy in ("m", "n"):
            journal.arrived(copy, number, [(0, number, number)], a=number)
    assert (journal.entries(), journal.log.punctuations(), stage.rung) == ([], {}, 1)
    assert journal.inlet.waiting() == (3, True)
    assert places(journal) == {"m": 0, "n": 0}, "nothing of it is acknowledged"
    journal.inlet.take()
    assert journal.inlet.waiting() == (0, False)
    assert (journal.entries(), journal.log.end_seq()) == ([(0, 1, 1), (0, 2, 2), (0, 3, 3)], 1)
    assert journal.log.punctuations() == {"a": 3}
    assert (journal.inlet.first_from("m"), journal.inlet.first_from("n")) == (3, 0)


def test_what_another_copy_repeats_is_not_taken_with_the_rows_of_a_batch(journal: Journal, stage: Stage) -> None:
    for copy in ("m", "n"):
        journal.arrived(copy, 1, [(0, 1, 1)], a=1)
    journal.inlet.take()
    assert journal.entries() == [(0, 1, 1)]
    assert {copy: known.position.id for copy, known in journal.inlet.state.copies.items()} == {"m": 1, "n": 0}
    assert not journal.inlet.is_stored
    assert journal.inlet.settled().copies["n"].position.id == 1


def test_what_another_copy_repeats_and_promises_more_is_taken_with_the_rows_of_a_batch(
    journal: Journal, stage: Stage
) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    journal.arrived("n", 1, [(0, 1, 1)], a=2)
    assert journal.inlet.waiting() == (1, True)
    journal.inlet.take()
    assert (journal.entries(), journal.log.punctuations()) == ([(0, 1, 1)], {"a": 2})


def test_a_promise_for_which_the_first_copy_may_not_vouch_is_taken_from_the_second(
    journal: Journal, stage: Stage
) -> None:
    journal.answered("o", a=5)
    journal.arrived("o", 1, [], a=7)
    journal.arrived("m", 1, [], a=7)
    journal.inlet.take()
    assert journal.log.punctuations() == {"a": 7}


def test_rows_that_another_copy_cuts_in_another_way_are_known(journal: Journal, stage: Stage) -> None:
    for number in (1, 2, 3):
        journal.arrived("m", number, [(0, number, number)], a=number)
    journal.arrived("n", 1, [(0, 1, 1), (0, 2, 2), (0, 3, 3)], a=3)
    assert journal.inlet.waiting() == (3, True)
    journal.arrived("n", 4, [(0, 3, 3), (0, 4, 4)], a=4)
    assert journal.inlet.waiting() == (3, True), "of the second copy, one row is new"
    journal.inlet.take()
    assert journal.entries() == [(0, 1, 1), (0, 2, 2), (0, 3, 3), (0, 4, 4)]


def test_copies_may_collect_rows_for_as_long_as_the_most_impatient_stage_says(journal: Journal, stage: Stage) -> None:
    other = Stage()
    stage.hold, other.hold = 250, 100
    assert journal.inlet.hold_us() == 250
    journal.inlet.read_by(other)
    assert journal.inlet.hold_us() == 100


def test_pieces_are_compared_later_than_they_are_stored(
    journal: Journal, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("anabranch.node.inlet.time.monotonic", lambda: now)
    for copy in ("m", "n"):
        journal.arrived(copy, 1, [(0, 1, 1)], a=1)
    now = inlet.STORE_S
    journal.inlet.stored()
    now = 2 * inlet.STORE_S
    assert places(journal) == {"m": 1, "n": 1}
    assert sorted(journal.inlet._uncompared) == ["m", "n"]
    now = (1 + inlet.COMPARE_TIMES) * inlet.STORE_S
    journal.inlet.stored()
    assert journal.inlet._uncompared == {}
    assert journal.inlet.is_stored


def test_what_several_copies_brought_first_is_one_transaction(journal: Journal, stage: Stage) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    journal.arrived("n", 1, [(0, 1, 1), (0, 2, 2)], a=2)
    commits: list[int] = []
    journal.log.on_growth(lambda: commits.append(journal.log.end_seq()))
    journal.inlet.take()
    assert (journal.entries(), commits) == ([(0, 1, 1), (0, 2, 2)], [2])
    assert journal.log.punctuations() == {"a": 2}
    assert (journal.inlet.first_from("m"), journal.inlet.first_from("n")) == (1, 1)


def test_a_row_that_a_stage_would_read_now_goes_to_the_journal_with_what_its_copy_brought(
    journal: Journal, stage: Stage
) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    stage.waits = False
    journal.arrived("m", 2, [(0, 2, 2)], a=2)
    assert journal.entries() == [(0, 1, 1), (0, 2, 2)]


def test_a_stage_is_asked_with_the_promises_of_all_that_was_put_off(journal: Journal, stage: Stage) -> None:
    """One of two origins may have passed the end of a window in a piece that waits, and the other passes it now."""
    journal.arrived("m", 1, [(0, 1, 1)], a=5)
    journal.arrived("n", 1, [(0, 1, 1)], a=4, b=7)
    assert stage.offered == {"a": 5, "b": 7}


def test_what_was_put_off_before_a_crash_comes_again(journal: Journal, stage: Stage) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    journal.reopen()
    assert journal.inlet.state.copies["m"].position == Position("i", 0)
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    assert journal.entries() == [(0, 1, 1)]


def test_what_cannot_be_stored_is_put_off_further(
    journal: Journal, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    with monkeypatch.context() as patched:
        patched.setattr("anabranch.node.inlet._encoded", lambda state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            journal.inlet.take()
    assert journal.inlet.waiting() == (1, True)
    journal.arrived("m", 2, [(0, 2, 2)], a=2)
    journal.inlet.take()
    assert journal.entries() == [(0, 1, 1), (0, 2, 2)]


def test_so_many_rows_that_a_batch_begins_for_them_ring_again(journal: Journal, stage: Stage) -> None:
    numbers = range(1, limits.PACE_ROWS + 1)
    for first in range(0, limits.PACE_ROWS, 10):
        entries = [(0, number, number) for number in numbers[first : first + 10]]
        journal.arrived("m", first + 1, entries)
    assert (stage.rung, journal.inlet.waiting()) == (2, (limits.PACE_ROWS, True))


def test_what_waits_for_a_stage_that_never_takes_it_is_stored_after_a_while(
    journal: Journal, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.arrived("m", 1, [(0, 1, 1)], a=1)
    monkeypatch.setattr(inlet, "STORE_S", 0.0)
    assert places(journal) == {"m": 1, "n": 0}
    assert journal.entries() == [(0, 1, 1)]


def test_what_has_waited_for_long_is_stored_when_it_is_asked_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
        journal.arrived(copy, 1, [(0, 10, 1)])
    monkeypatch.setattr(inlet, "STORE_S", 0.0)
    assert places(journal) == {"m": 1, "n": 1}
    journal.reopen()
    assert places(journal) == {"m": 1, "n": 1}


def test_a_place_that_was_not_stored_is_asked_for_again_and_nothing_passes_twice(journal: Journal) -> None:
    for copy in ("m", "n"):
        journal.answered(copy)
        journal.arrived(copy, 1, [(0, 10, 1), (0, 11, 2)], a=11)
    journal.reopen()
    assert places(journal) == {"m": 2, "n": 0}
    journal.answered("n", 1)
    journal.arrived("n", 1, [(0, 10, 1), (0, 11, 2), (0, 12, 3)], a=12)
    assert journal.entries() == [(0, 10, 1), (0, 11, 2), (0, 12, 3)]
    assert places(journal) == {"m": 2, "n": 3}


def test_what_must_be_remembered_is_not_trimmed(journal: Journal) -> None:
    """A stage may have read it all: as long as a copy may bring it again, it stays."""
    for copy in ("m", "n"):
        journal.answered(copy)
    journal.arrived("m", 1, [(0, 10, 1)])
    journal.arrived("m", 2, [(0, 20, 2)], a=15)
    for _ in range(2):
        with journal.store.transaction() as transaction:
            transaction.trim("s", now_us=0)
        assert journal.entries() == [(0, 20, 2)]
        journal.reopen()
    journal.arrived("n", 1, [(0, 10, 1), (0, 20, 2)], a=15)
    assert journal.entries() == [(0, 20, 2)]
    journal.arrived("n", 3, [], a=21)
    assert journal.log.readers()[INLET_READER] == journal.log.end_seq()
    journal.arrived("n", 3, [(1, 30, 1)], a=40, b=40)  # what is over at once is not held either
    assert journal.log.readers()[INLET_READER] == journal.log.end_seq()


def test_a_hole_is_asked_for_again_and_nothing_is_stored(journal: Journal) -> None:
    journal.answered("m")
    before = journal.log.end_seq()
    assert journal.arrived("m", 3, [(0, 10, 3)]) == [SubscribeAgain(copy="m")]
    assert journal.log.end_seq() == before


def test_a_failed_transaction_leaves_the_inlet_as_it_was(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.answered("m")
    with monkeypatch.context() as patched:
        patched.setattr("anabranch.node.inlet._encoded", lambda state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            journal.arrived("m", 1, [(0, 10, 1)], a=11)
    assert journal.entries() == []
    assert journal.arrived("m", 1, [(0, 10, 1)], a=10) == [Acknowledge(copy="m", position=Position("i", 1))]
    assert journal.entries() == [(0, 10, 1)]


@given(seed=st.integers(0, 1 << 32))
def test_copies_in_any_order_with_restarts_make_the_journal_that_one_would(seed: int) -> None:
    """Two copies of the same tuples in orders of their own, cut anywhere, with restarts and trimming in between."""
    random = Random(seed)
    entries = [(random.randrange(2), random.randrange(20), number) for number in range(30)]
    copies = {
        copy: sorted(entries, key=lambda entry: entry[1] + random.uniform(0, spread))
        for copy, spread in (("m", 0), ("n", random.choice((0, 5, 40))))
    }
    passed: list[Entry] = []
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "s.db")
        for copy in copies:
            journal.answered(copy)
        sent = dict.fromkeys(copies, 0)
        while any(sent[copy] < len(entries) for copy in copies):
            copy = random.choice([copy for copy in copies if sent[copy] < len(entries)])
            begin = max(0, sent[copy] - random.choice((0, 0, 3)))  # a copy may send something again
            sent[copy] = min(len(entries), sent[copy] + random.randint(1, 8))
            left = copies[copy][sent[copy] :]
            promises = {
                origin: min((time for code, time, _ in left if code == number), default=20)
                for number, origin in enumerate(ORIGINS)
            }
            before = journal.log.end_seq()
            journal.arrived(copy, begin + 1, copies[copy][begin : sent[copy]], **promises)
            for segment in journal.log.read(before, journal.log.end_seq()):
                if segment.rows is not None:
                    times = segment.rows.column("_stime").cast(pa.int64()).to_pylist()
                    columns = segment.rows.select(["_origin", "_tid"]).to_pydict()
                    passed += zip(columns["_origin"], times, columns["_tid"], strict=True)
            if random.random() < 0.3:
                with journal.store.transaction() as transaction:
                    transaction.trim("s", now_us=0)
            if random.random() < 0.3:
                journal.reopen()
        journal.store.close()
    assert sorted(passed) == sorted(entries)
    assert journal.inlet.state.punctuations == {"a": 20, "b": 20}

"""A store against a plain list: whatever is done, in whatever order, both show the same."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anabranch.errors import StreamNotFound
from anabranch.storage import Bodies, Store
from tests.unit.storage.stories import ORIGINS, rows, spec

SECOND = 1_000_000


@dataclass
class Entry:
    values: list[int]
    punctuations: dict[str, int]
    appended_us: int


@dataclass
class Model:
    """A log as a list that forgets nothing; ``trimmed`` says how many entries the log may have forgotten."""

    entries: list[Entry] = field(default_factory=list)
    trimmed: int = 0
    readers: dict[str, int] = field(default_factory=dict)

    def rows_to(self, seq: int) -> int:
        return sum(len(entry.values) for entry in self.entries[:seq])

    def punctuations(self, seq: int) -> dict[str, int]:
        return self.entries[seq - 1].punctuations if seq else {}


class Machine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "s.db"
        self.store = Store.open(self.path, bodies=partial(Bodies, large_bytes=700))  # some are, some are not
        self.log = self.store.create_log(spec())
        self.model = Model()
        self.now_us = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()

    @rule(
        counts=st.lists(st.integers(0, 4), min_size=1, max_size=3),
        raised=st.dictionaries(st.sampled_from(ORIGINS), st.integers(0, 3), max_size=2),
        commit=st.booleans(),
    )
    def append(self, counts: list[int], raised: dict[str, int], commit: bool) -> None:
        entries: list[Entry] = []
        known = self.model.punctuations(len(self.model.entries))
        try:
            with self.store.transaction() as transaction:
                for count in counts:
                    new = known | {origin: known.get(origin, 0) + more for origin, more in raised.items()}
                    values = list(range(count))
                    batch = rows(values, time_us=known.get("s/0", 0) + 1)
                    transaction.append("s", batch, new, now_us=self.now_us)
                    if values or new != known:
                        entries.append(Entry(values, new, self.now_us))
                    known = new
                if not commit:
                    raise ZeroDivisionError
                self.model.entries += entries
        except ZeroDivisionError:
            pass

    @rule(seconds=st.integers(0, 3))
    def let_time_pass(self, seconds: int) -> None:
        self.now_us += seconds * SECOND // 2

    @rule(name=st.sampled_from("ab"), data=st.data())
    def add_reader(self, name: str, data: st.DataObject) -> None:
        seq = data.draw(st.integers(self.model.trimmed, len(self.model.entries)))
        with self.store.transaction() as transaction:
            transaction.add_reader("s", name, at_seq=seq)
        self.model.readers.setdefault(name, seq)

    @rule(name=st.sampled_from("ab"))
    def remove_reader(self, name: str) -> None:
        with self.store.transaction() as transaction:
            transaction.remove_reader("s", name)
        self.model.readers.pop(name, None)

    @precondition(lambda self: self.model.readers)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.readers)))
        seq = data.draw(st.integers(0, len(self.model.entries)))
        with self.store.transaction() as transaction:
            transaction.acknowledge("s", name, seq)
        self.model.readers[name] = max(seq, self.model.readers[name])

    @rule()
    def trim(self) -> None:
        with self.store.transaction() as transaction:
            deleted = transaction.trim("s", now_us=self.now_us)
        expected = self.model.trimmed
        while expected < len(self.model.entries) and self.may_go(expected + 1):
            expected += 1
        assert deleted == expected - self.model.trimmed
        self.model.trimmed = expected

    def may_go(self, seq: int) -> bool:
        if self.model.readers:
            return seq <= min(self.model.readers.values())
        return self.model.entries[seq - 1].appended_us < self.now_us - SECOND

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.path)
        self.log = self.store.log("s")

    @rule(data=st.data(), most=st.integers(0, 10))
    def ask_for_positions(self, data: st.DataObject, most: int) -> None:
        model, end = self.model, len(self.model.entries)
        after = data.draw(st.integers(model.trimmed, end))
        fitting = [seq for seq in range(after, end + 1) if model.rows_to(seq) - model.rows_to(after) <= most]
        assert self.log.latest_seq(after, most) == min(max(fitting[-1], after + 1), end)
        assert self.log.rows_between(after, end) == model.rows_to(end) - model.rows_to(after)
        assert self.log.punctuations_at(after) == model.punctuations(after)
        id = data.draw(st.integers(model.rows_to(model.trimmed) + 1, model.rows_to(end) + 1))
        before = [seq for seq in range(model.trimmed, end + 1) if model.rows_to(seq) < id]
        assert self.log.seq_before_id(id) == before[-1]
        if model.trimmed:
            with pytest.raises(StreamNotFound):
                self.log.read(model.trimmed - 1, end)

    @invariant()
    def both_show_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        model, log, end = self.model, self.log, len(self.model.entries)
        assert (log.end_seq(), log.first_seq(), log.readers()) == (end, model.trimmed + 1, model.readers)
        assert (log.first_id(), log.last_id()) == (model.rows_to(model.trimmed) + 1, model.rows_to(end))
        assert log.punctuations() == model.punctuations(end)
        for segment in log.read(model.trimmed, end):
            entry = model.entries[segment.seq - 1]
            values = segment.rows.column("value").to_pylist() if segment.rows is not None else []
            assert (values, segment.punctuations) == (entry.values, entry.punctuations)
            assert (segment.first_id, segment.appended_us) == (model.rows_to(segment.seq - 1) + 1, entry.appended_us)
        assert (log.bytes() == 0) == (model.trimmed == end)


TestModel = Machine.TestCase
TestModel.settings = settings(stateful_step_count=25)

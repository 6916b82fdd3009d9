"""Inputs that take turns by stream time: what came of one waits until the others cannot bring anything earlier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch.model.names import replica_reader
from anabranch.model.techniques import Technique
from anabranch.node.acknowledger import Acknowledger
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.turns import Turns, holds
from anabranch.query.assigned import AssignedQuery
from anabranch.query.builder import Query
from anabranch.query.graph import stages
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyPiece
from tests.assigning import assigned
from tests.unit.node.replicas import ORIGIN, SOURCE, Upstream, create, numbers_in, rows
from tests.waiting import HANG_S, wait_for


def piece(origin: str, time_us: int, *, promised: int | None = None, count: int = 1) -> CopyPiece:
    return CopyPiece(
        first_id=1, rows=rows(time_us, count), promises={origin: time_us if promised is None else promised}
    )


def promise(origin: str, time_us: int) -> CopyPiece:
    return CopyPiece(first_id=1, rows=rows(1, 0), promises={origin: time_us})


class Inputs:
    """Two inputs; ``passed`` has the pieces that were let through, in that order."""

    def __init__(self) -> None:
        self.turns = Turns({"a": ["a/0"], "b": ["b/0"]})
        self.passed: list[tuple[str, int]] = []
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []

    def bring(self, stream: str, arrived: CopyPiece) -> threading.Thread:
        """As a follower would, in a thread of its own."""

        def run() -> None:
            self.turns.promised(stream, arrived)
            self.turns.wait(stream, arrived, self.over.is_set)
            if not self.over.is_set():
                self.passed += [(stream, number) for number in arrived.rows.column("x").to_pylist()]

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def close(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(HANG_S)
            assert not thread.is_alive()


@pytest.fixture
def inputs() -> Iterator[Inputs]:
    made = Inputs()
    yield made
    made.close()


def test_a_piece_waits_until_the_other_input_has_promised_more(inputs: Inputs) -> None:
    inputs.bring("b", promise("b/0", 9)).join(HANG_S)
    waiting = inputs.bring("a", piece("a/0", 10))
    waiting.join(0.2)
    assert waiting.is_alive()
    assert inputs.passed == []
    inputs.bring("b", promise("b/0", 11)).join(HANG_S)
    waiting.join(HANG_S)
    assert inputs.passed == [("a", 10)]


def test_the_earlier_of_two_that_wait_goes_first_whoever_came_first(inputs: Inputs) -> None:
    later = inputs.bring("a", piece("a/0", 20))
    earlier = inputs.bring("b", piece("b/0", 10))
    earlier.join(HANG_S)
    assert inputs.passed == [("b", 10)]
    assert later.is_alive()
    inputs.bring("b", promise("b/0", 21)).join(HANG_S)
    later.join(HANG_S)
    assert inputs.passed == [("b", 10), ("a", 20)]


def test_equal_times_go_by_the_name_of_the_stream(inputs: Inputs) -> None:
    last = inputs.bring("b", piece("b/0", 10))
    inputs.bring("a", piece("a/0", 10)).join(HANG_S)
    assert inputs.passed == [("a", 10)]
    assert last.is_alive()
    inputs.bring("a", promise("a/0", 11)).join(HANG_S)
    last.join(HANG_S)
    assert inputs.passed == [("a", 10), ("b", 10)]


def test_the_last_row_of_a_piece_decides(inputs: Inputs) -> None:
    inputs.bring("b", promise("b/0", 11)).join(HANG_S)
    waiting = inputs.bring("a", piece("a/0", 10, promised=12, count=3))
    waiting.join(0.2)
    assert waiting.is_alive()
    inputs.bring("b", promise("b/0", 13)).join(HANG_S)
    waiting.join(HANG_S)
    assert inputs.passed == [("a", 10), ("a", 11), ("a", 12)]


def part_of(query: Query, *, technique: Technique = Technique.DETERMINISTIC) -> AssignedQuery:
    made = stages(query.checked())
    upstream = {stream: {"mit": "unused"} for stage in made for stream in stage.inputs}
    names = [stage.name for stage in made]
    return assigned(query.checked(), "wisc", stages=names, upstream=upstream, technique=technique)


def test_only_the_inputs_of_one_box_wait_for_each_other() -> None:
    query = Query("two_unions")
    one, two, three, four = (query.source(name, "x bigint") for name in ("one", "two", "three", "four"))
    query.output("left", one.union(two, name="left_union"))
    query.output("right", three.union(four, name="right_union"))
    made = holds(part_of(query))
    origins = {source.name: source.origins[0] for source in query.checked().sources}
    made["two"](promise(origins["two"], 11), lambda: False)
    made["one"](piece(origins["one"], 10), lambda: False)  # does not wait for three and four, which are silent
    asked: list[bool] = []

    def over() -> bool:
        asked.append(True)
        return True

    made["three"](piece(origins["three"], 10), over)
    assert asked


def test_what_is_held_is_neither_stored_nor_acknowledged(tmp_path: Path) -> None:
    turns = Turns({SOURCE: [ORIGIN], "other": ["other/0"]})
    seen = threading.Event()

    def hold(arrived: CopyPiece, over: Callable[[], bool]) -> None:
        turns.promised(SOURCE, arrived)
        if arrived.rows.num_rows:
            seen.set()
        turns.wait(SOURCE, arrived, over)

    with ExitStack() as stack:
        upstream = Upstream(tmp_path / "upstream", ("osu",))
        stack.callback(upstream.close)
        store = Store.open(tmp_path / "journal")
        stack.callback(store.close)
        journal = create(store, SOURCE)
        inlet = JournalInlet(store, journal, clock=lambda: 0)
        client = stack.enter_context(Client(upstream.server.address))
        acknowledger = Acknowledger("mit", client)
        follower = CopyFollower(
            inlet, client, acknowledger, copy="mit", reader=replica_reader("osu"), life="life", rebuild=print, hold=hold
        )
        for each in (acknowledger, follower):
            each.start()
            stack.callback(each.join)
            stack.callback(each.close)
        upstream.append(3)
        assert seen.wait(HANG_S)
        assert numbers_in(journal) == []
        assert upstream.served.readers[replica_reader("osu")].acknowledged == 0
        turns.promised("other", promise("other/0", 4))
        wait_for(lambda: numbers_in(journal) == [1, 2, 3], lambda: numbers_in(journal))
        wait_for(lambda: upstream.served.readers[replica_reader("osu")].acknowledged == 3)

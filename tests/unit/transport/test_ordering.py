"""A subscription in canonical order: nothing comes before what stands in front of it, and what is held is bounded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError, Overloaded
from anabranch.model.position import Position
from anabranch.transport import ordering
from anabranch.transport.ordering import OrderedSubscription
from anabranch.transport.session import connect
from anabranch.transport.tuples import boundaries, insertions
from anabranch.transport.wire import wire_schema
from tests.unit.transport.log_node import ORIGINS, Entry, LogNode, stored
from tests.unit.transport.test_racing import entries, promises

SCHEMA = wire_schema(pa.schema([("x", pa.int64())]))


class Script:
    """A subscription that brings these steps, each with the place after it."""

    stream = "s"
    schema = SCHEMA
    reader: str | None = "desk"
    origins: tuple[str, ...] = ORIGINS

    def __init__(self, steps: list[list[Entry] | dict[str, int]]) -> None:
        self._steps = steps
        self.place = 0
        self.acknowledged: list[int | None] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for step in self._steps:
            self.place += 1
            yield boundaries(step, SCHEMA) if isinstance(step, dict) else insertions(stored(step), 1, ORIGINS, SCHEMA)

    def acknowledge(self, place: int | None = None) -> None:
        self.acknowledged.append(place)

    def close(self) -> None: ...


def test_tuples_come_when_every_origin_has_passed_them_in_canonical_order() -> None:
    script = Script([[("b", 10, 1), ("a", 12, 5)], [("a", 10, 2), ("a", 10, 1)], {"a": 20}, {"b": 11}, [("b", 11, 1)]])
    got = iter(OrderedSubscription(script))
    assert entries(next(got)) == [("a", 10, 1), ("a", 10, 2), ("b", 10, 1)]
    assert promises(next(got)) == {"a": 11, "b": 11}
    assert entries(next(got)) == [("b", 11, 1), ("a", 12, 5)]  # the end: nothing can come before them any more
    assert list(got) == []


def test_the_place_is_behind_what_is_held() -> None:
    """An acknowledgement covers only what was handed out."""
    steps: list[list[Entry] | dict[str, int]] = [
        [("a", 10, 1)],
        [("a", 15, 2)],
        {"a": 20, "b": 11},
        [("b", 12, 1)],
        {"b": 20},
    ]
    script = Script(steps)
    ordered = OrderedSubscription(script)
    places = [ordered.place for batch in ordered if entries(batch)]
    assert places == [1, 5]  # while 15 is held, it is behind the second step
    ordered.acknowledge()
    assert script.acknowledged == [5]


def test_random_arrivals_come_out_sorted_and_complete() -> None:
    chance = random.Random(5)
    tuples = [(origin, time, number) for number, time in enumerate(range(1, 200)) for origin in ORIGINS]
    arriving = sorted(tuples, key=lambda each: each[1] + chance.random() * 20)
    steps: list[list[Entry] | dict[str, int]] = []
    for start in range(0, len(arriving), 7):
        steps.append(arriving[start : start + 7])
        later = [time for _, time, _ in arriving[start + 7 :]]
        steps.append(dict.fromkeys(ORIGINS, min(later, default=1_000)))
    found = [entry for batch in OrderedSubscription(Script(steps)) for entry in entries(batch)]
    assert found == sorted(tuples, key=lambda each: (each[1], each[0], each[2]))


def test_more_than_may_be_held_is_an_error_that_names_the_slowest_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "ORDERED_BYTES", 1_000)
    steps: list[list[Entry] | dict[str, int]] = [{"a": 1_000}]
    steps += [[("a", time, time)] for time in range(1_000, 1_100)]
    with pytest.raises(Overloaded, match="the punctuation of origin 'b' is still at"):
        list(OrderedSubscription(Script(steps)))


def test_a_stream_that_promises_nothing_has_no_order() -> None:
    script = Script([])
    script.origins = ()
    with pytest.raises(ConfigError, match="has no punctuation"):
        OrderedSubscription(script)


def test_copies_in_different_orders_give_one_sequence(tmp_path: Path) -> None:
    tuples = [("a", 10, 1), ("b", 10, 1), ("a", 11, 2), ("a", 12, 3)]
    with ExitStack() as opened:
        pair = LogNode(tmp_path, "m"), LogNode(tmp_path, "n")
        for node, order in zip(pair, (tuples, tuples[::-1]), strict=True):
            opened.callback(node.close)
            node.append(order[:2])
            node.append(order[2:], a=12, b=20)
        replicas = opened.enter_context(connect([node.address for node in pair]))
        got = list(replicas.subscribe("s", start="start", follow=False, ordered=True))
        assert [entry for batch in got for entry in entries(batch)] == tuples
        single = opened.enter_context(connect(pair[1].address))
        reading = single.subscribe("s", start="start", follow=False, ordered=True)
        alone = pa.Table.from_batches(reading, schema=reading.schema)
    assert [entry for batch in alone.to_batches() for entry in entries(batch)] == tuples
    assert [each for each in alone.column("_id").to_pylist() if each] == [4, 3, 2, 1]  # where they are in this log
    assert reading.place == Position(pair[1].log.incarnation, 4)

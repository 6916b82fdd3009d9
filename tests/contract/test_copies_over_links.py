"""Copies on two nodes, read by a third over links that are late, cut and healed: each tuple once, none missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.model.links import Cut, Delay, Heal, Link
from anabranch.node.relays import Relays
from tests.contract.test_copies import Downstream, Entry, Upstream, entries_of
from tests.waiting import wait_for


def all_entries(last: int) -> list[Entry]:
    return sorted((number % 2, number, number) for number in range(last))


class Linked:
    """Nodes m and n with a copy each, and a reader whose links with both are emulated."""

    def __init__(self, directory: Path) -> None:
        self.copies = {name: Upstream(directory / f"{name}.db") for name in ("m", "n")}
        links = {name: Link(delay_us=10_000, jitter_us=5_000) for name in self.copies}
        self.links = Relays("r", links, allow_faults=True)
        self.reader = Downstream(directory / "r.db", self.copies, route=self.links.route)

    def append(self, first: int, last: int) -> None:
        """Tuples with these numbers, at both, in different orders; their times are promised."""
        entries = [(number % 2, number, number) for number in range(first, last)]
        self.copies["m"].append(entries, a=last, b=last)
        self.copies["n"].append(entries[::-1], a=last, b=last)

    def wait_passed(self, last: int) -> None:
        wait_for(lambda: self.reader.inlet.state.punctuations == {"a": last, "b": last}, self.shown)

    def wait_held(self, copy: str, count: int) -> None:
        """Until the reader has all of this copy."""
        wait_for(lambda: self.position(copy) == count, self.shown)

    def position(self, copy: str) -> int:
        known = self.reader.inlet.state.copies.get(copy)
        return 0 if known is None else known.position.id

    def shown(self) -> object:
        return self.reader.inlet.state.copies, self.links.statistics()

    def close(self) -> None:
        self.links.close()
        self.reader.close()
        for copy in self.copies.values():
            copy.close()
        assert self.reader.reasons == []


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    made = Linked(tmp_path)
    yield made
    made.close()


def test_a_copy_behind_a_cut_link_holds_up_nobody_and_catches_up(linked: Linked) -> None:
    linked.append(0, 100)
    linked.wait_held("m", 100)
    linked.wait_held("n", 100)
    linked.links.set("n", Cut())
    linked.append(100, 200)
    linked.wait_passed(200)
    assert linked.position("n") == 100
    linked.links.set("n", Heal())
    linked.wait_held("n", 200)
    assert sorted(entries_of(linked.reader.journal)) == all_entries(200)


def test_nothing_is_lost_or_repeated_when_both_links_are_cut_in_turn_and_together(linked: Linked) -> None:
    last = 0
    for hurt in (["m"], ["n"], ["m", "n"], []):
        for name in hurt:
            linked.links.set(name, Cut())
        linked.append(last, last + 50)
        last += 50
        if len(hurt) < 2:
            linked.wait_passed(last)
        for name in hurt:
            linked.links.set(name, Heal())
    linked.wait_held("m", last)
    linked.wait_held("n", last)
    assert sorted(entries_of(linked.reader.journal)) == all_entries(last)


def test_the_copy_on_the_shorter_way_wins(linked: Linked) -> None:
    linked.append(0, 10)
    linked.wait_held("m", 10)
    linked.wait_held("n", 10)
    before = linked.reader.inlet.first_from("n")
    linked.links.set("m", Delay(1_000_000))
    linked.append(10, 110)
    linked.wait_passed(110)
    linked.wait_held("m", 110)
    assert linked.reader.inlet.first_from("n") - before == 100


def test_a_node_stops_at_once_though_its_links_are_cut(linked: Linked) -> None:
    """Closing the links ends the calls that wait behind the cut; ``close`` of the fixture would hang otherwise."""
    linked.append(0, 10)
    linked.wait_held("m", 10)
    for name in linked.copies:
        linked.links.set(name, Cut())
    linked.append(10, 20)

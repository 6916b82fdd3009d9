"""An entry point's copy of a shared lane, on a real store: what is read is what was written, whatever came between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from anabranch.core.shared_lane import LaneCopy
from anabranch.node import kept_lane
from anabranch.node.kept_lane import Copy, Held
from anabranch.storage.store import Store


def contents(copy: Copy, store: Store) -> object:
    """The copy with bytes in place of what holds them."""
    entries = tuple(entry.read(store) for entry in copy.entries)
    return replace(copy, entries=entries, base=copy.base.read(store) if copy.base else None)


def step(copy: Copy, chance: Random, number: int) -> Copy:
    match chance.choice(("enter", "enter", "release", "trim", "give way", "term", "hole")):
        case "enter":
            return replace(copy, entries=(*copy.entries, Held(body=b"entry %d" % number)))
        case "release":
            return replace(copy, released=chance.randint(copy.released, copy.held), lives={"a": number})
        case "trim":
            trimmed = copy.trim(copy.released)
            return replace(trimmed, base=Held(body=b"base %d" % number)) if trimmed is not copy else copy
        case "give way":
            kept = copy.between(copy.trimmed, copy.released)
            new = tuple(Held(body=b"other %d" % number) for _ in range(chance.randrange(3)))
            return replace(copy, entries=(*kept, *new))
        case "term":
            return replace(copy, term=copy.term + 1, voted_for="b", whole=copy.term)
        case _:
            place = copy.held + chance.randint(1, 5)
            base = Held(body=b"jump %d" % number)
            return replace(copy, entries=(), trimmed=place, released=place, base=base, learns=True)


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_is_read_as_it_was_written(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    store = Store.open(tmp_path / "s.db")
    copy: Copy = LaneCopy(lives={"a": 1})
    with store.transaction() as transaction:
        kept_lane.save(transaction, "p", LaneCopy(), copy)
    kept_bytes = 0
    for number in range(60):
        after = step(copy, chance, number)
        if not kept_lane.is_same(copy, after):
            with store.transaction() as transaction:
                kept_lane.save(transaction, "p", copy, after)
            kept_bytes += kept_lane.added_bytes(copy, after)
            for entry in after.between(copy.released, after.released):
                entry.leave_memory()
        copy = after
        loaded = kept_lane.load(store, "p")
        assert loaded is not None
        assert contents(loaded, store) == contents(copy, store), f"seed {seed}, step {number}"
        assert kept_bytes == sum(entry.size for entry in loaded.entries) == sum(store.sizes("entry/p/").values())
    store.close()


def test_a_lane_that_was_never_written_is_not_there(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.db")
    assert kept_lane.load(store, "p") is None
    store.close()

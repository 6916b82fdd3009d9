"""An entry point's copy of a shared lane, on a real store: what is read is what was written, whatever came between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from anabranch.core.shared_lane import LaneCopy
from anabranch.errors import InvariantBroken
from anabranch.model.names import late_stream
from anabranch.node import kept_lane
from anabranch.node.kept_lane import Copy, Held, KeptLane
from anabranch.runtime.ingest.lane_replica import added_bytes, is_same
from anabranch.storage.state import LogSpec
from anabranch.storage.store import Store


def opened(store: Store) -> KeptLane:
    """Lane p of a source in this store."""
    for name in ("events", late_stream("events")):
        spec = LogSpec(
            name=name,
            schema=pa.schema([("x", pa.int64())]),
            origins=("events/p",),
            kind="source",
            retention_us=10**12,
            limit_bytes=10**9,
        )
        store.create_log(spec)
    return KeptLane(
        "events",
        "p",
        store,
        clock=lambda: 1,
        released=lambda decided: None,
        renew=lambda stream, floors: None,
        kept=lambda stream: frozenset(),
        rebuild=lambda reason: None,
    )


def contents(copy: Copy) -> object:
    """The copy with bytes in place of what holds them."""
    entries = tuple(entry.body() for entry in copy.entries)
    return replace(copy, entries=entries, base=copy.base.body() if copy.base else None)


def step(lane: KeptLane, copy: Copy, chance: Random, number: int) -> Copy:
    match chance.choice(("enter", "enter", "release", "trim", "give way", "term", "hole")):
        case "enter":
            return replace(copy, entries=(*copy.entries, Held(lane, b"entry %d" % number)))
        case "release":
            return replace(copy, released=chance.randint(copy.released, copy.held), lives={"a": number})
        case "trim":
            trimmed = copy.trim(copy.released)
            return replace(trimmed, base=Held(lane, b"base %d" % number)) if trimmed is not copy else copy
        case "give way":
            kept = copy.between(copy.trimmed, copy.released)
            new = tuple(Held(lane, b"other %d" % number) for _ in range(chance.randrange(3)))
            return replace(copy, entries=(*kept, *new))
        case "term":
            return replace(copy, term=copy.term + 1, voted_for="b", whole=copy.term)
        case _:
            place = copy.held + chance.randint(1, 5)
            base = Held(lane, b"jump %d" % number)
            return replace(copy, entries=(), trimmed=place, released=place, base=base, learns=True)


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_is_read_as_it_was_written(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    store = Store.open(tmp_path / "s.db")
    lane = opened(store)
    copy: Copy = LaneCopy(lives={"a": 1})
    with store.transaction() as transaction:
        kept_lane.save(transaction, "p", LaneCopy(), copy)
    kept_bytes = 0
    for number in range(60):
        after = step(lane, copy, chance, number)
        if not is_same(copy, after):
            with store.transaction() as transaction:
                kept_lane.save(transaction, "p", copy, after)
            kept_bytes += added_bytes(copy, after)
            for entry in after.between(copy.released, after.released):
                entry.leave_memory()
        copy = after
        loaded = lane.load()
        assert contents(loaded) == contents(copy), f"seed {seed}, step {number}"
        assert kept_bytes == sum(entry.size for entry in loaded.entries) == sum(store.sizes("entry/p/").values())
    store.close()


def test_a_lane_that_was_never_written_is_not_there(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.db")
    with pytest.raises(InvariantBroken, match="is not in its store"):
        opened(store).load()
    store.close()

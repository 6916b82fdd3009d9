"""An entry point's copy of a shared lane, as the source's store holds it: the disk of a ``LaneReplica``.

    shared/LANE          terms, votes, lives, how far it is released: everything but the entries
    entry/LANE/PLACE     an entry, as bytes, until every entry point has released it
    base/LANE            what was at the place before the first of them, without its rows

Only what changed is written. Entries are read when they are needed: what is released and kept for a peer that is away
takes no memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from functools import partial
from typing import Any, Final

import msgspec

from anabranch.core.lane_state import LaneState
from anabranch.core.shared_lane import LaneCopy
from anabranch.errors import check
from anabranch.model.names import lane_origin, late_stream
from anabranch.model.punctuation import Punctuations
from anabranch.node.decided import Decided, append
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

_ENCODER: Final = msgspec.json.Encoder()


class Held:
    """The bytes of an entry: in memory while they are on their way, on disk afterwards."""

    __slots__ = ("_body", "_decided", "_key", "_lane", "size")

    def __init__(
        self,
        lane: KeptLane,
        body: bytes | None = None,
        *,
        key: str | None = None,
        size: int | None = None,
        decided: Decided | None = None,
    ) -> None:
        """``decided`` is what the body says, where that is known."""
        self._lane = lane
        self._body = body
        self._decided = decided
        self._key = key
        self.size: Final = len(body) if body is not None else size or 0

    def body(self) -> bytes:
        if self._body is not None:
            return self._body
        check(self._key is not None, "An entry of a lane is neither in memory nor on disk.")
        body = self._lane.read(self._key or "")
        check(body is not None, f"The entry {self._key} of a lane is gone.")
        return body or b""

    def decided(self) -> Decided:
        return self._decided or Decided.from_bytes(self.body(), self._lane.origin)

    def write(self, transaction: Transaction, key: str) -> None:
        check(self._body is not None, f"The entry {key} of a lane was to be written, and is not in memory.")
        transaction.put(key, self._body or b"")
        self._key = key

    def leave_memory(self) -> None:
        if self._key is not None:
            self._body = self._decided = None


Copy = LaneCopy[Held]


class KeptLane:
    """One lane in the store of its source. ``released`` is called with each entry that was shown. ``renew`` is called
    with a stream and times below which tuples will be missing in it; ``kept`` says which readers of a stream cannot go
    on then; ``rebuild`` is called with the reason why this node cannot."""

    def __init__(
        self,
        source: str,
        name: str,
        store: Store,
        *,
        clock: Callable[[], int],
        released: Callable[[Decided], None],
        renew: Callable[[str, Punctuations], None],
        kept: Callable[[str], Set[str]],
        rebuild: Callable[[str], None],
    ) -> None:
        self.origin: Final = lane_origin(source, name)
        self.shown = LaneState()
        """The state of the lane after the entry that was shown last, in this run."""
        self.entry: Final = partial(Held, self)
        self.read: Final = store.get
        self._name = name
        self._source = source
        self._late = late_stream(source)
        self._logs = store.log(source), store.log(self._late)
        self._store = store
        self._clock = clock
        self._released = released
        self._renew = renew
        self._kept = kept
        self._rebuild = rebuild

    def load(self) -> Copy:
        stored = self._store.get(_facts_key(self._name))
        check(stored is not None, f"Lane {self._name!r} of {self._source!r} is not in its store.")
        facts: dict[str, Any] = json.loads(stored or b"")
        sizes, count = self._store.sizes(_entry_prefix(self._name)), facts.pop("entries")
        check(len(sizes) == count, f"Lane {self._name!r} has {len(sizes)} entries, and should have {count}.")
        entries = tuple(Held(self, key=key, size=size) for key, size in sizes.items())
        base_key = _base_key(self._name)
        base = self._store.sizes(base_key).get(base_key)
        return LaneCopy(**facts, entries=entries, base=None if base is None else Held(self, key=base_key, size=base))

    def state_at(self, copy: Copy, place: int) -> LaneState:
        """The state of the lane after this place, which is not trimmed."""
        last = copy.entries[place - copy.trimmed - 1] if place > copy.trimmed else copy.base
        return LaneState() if last is None else last.decided().state

    def store(self, before: Copy, after: Copy, *, hole: bool) -> None:
        shown = [entry.decided() for entry in after.between(before.released, after.released)]
        if hole and after.base is not None:
            shown.insert(0, after.base.decided())
        with self._store.transaction() as transaction:
            save(transaction, self._name, before, after)
            for decided in shown:
                append(transaction, self._source, self.origin, decided, now_us=self._clock())
        for decided in shown:
            self._released(decided)
        if shown:
            self.shown = shown[-1].state

    def leave_out(self, base: Held) -> bool:
        """Floors and incarnation are stored before the lane goes on: a crash between the two only repeats them."""
        own = self._kept(self._source)
        if own:
            self._rebuild(
                f"This entry point of {self._source!r} lacks entries of lane {self._name!r} that its peers no longer "
                f"keep, so {', '.join(sorted(own))} would never see them."
            )
            return False
        state = base.decided().state
        floor = max(state.max_time_us, state.last_stamp_us, state.boundary_us) + 1
        for stream in (self._source, self._late):
            self._renew(stream, {self.origin: floor})
        return True

    def log_ends(self) -> tuple[int, ...]:
        log, late = self._logs
        return log.last_id(), late.last_id()

    def is_forgotten(self, ends: tuple[int, ...]) -> bool:
        log, late = self._logs
        return ends[0] < log.first_id() and ends[1] < late.first_id()

    def base(self, entry: Held) -> Held:
        return Held(self, entry.decided().without_rows().to_bytes())

    def is_same(self, mine: Held, its: Held) -> bool:
        """The bytes of an entry are made once, by who first led it in; a base has lost its rows."""
        sent = its.body()
        return mine.body() == sent or mine.decided().without_rows().to_bytes() == sent


def has_entries(store: Store) -> bool:
    """Whether any lane of a source has entries here."""
    return bool(store.sizes("entry/"))


def save(transaction: Transaction, lane: str, before: Copy, after: Copy) -> None:
    """Writes what is different. A new base is in memory."""
    for place in range(before.trimmed + 1, min(after.trimmed, before.held) + 1):
        transaction.remove(_entry_key(lane, place))
    first = max(before.released, after.trimmed) + 1  # what was released stays as it is
    for place in range(first, max(before.held, after.held) + 1):
        old, new = _content(before, place), _content(after, place)
        if new is None:
            transaction.remove(_entry_key(lane, place))
        elif new is not old:
            new.write(transaction, _entry_key(lane, place))
    if after.base is not None and after.base is not before.base:
        after.base.write(transaction, _base_key(lane))
    transaction.put(_facts_key(lane), _facts(after))


def _content(copy: Copy, place: int) -> Held | None:
    if not copy.trimmed < place <= copy.held:
        return None
    return copy.entries[place - copy.trimmed - 1]


def _facts(copy: Copy) -> bytes:
    return _ENCODER.encode(
        {
            "term": copy.term,
            "leader": copy.leader,
            "voted_for": copy.voted_for,
            "entries": len(copy.entries),
            "trimmed": copy.trimmed,
            "released": copy.released,
            "whole": copy.whole,
            "everywhere": copy.everywhere,
            "learns": copy.learns,
            "lives": dict(copy.lives),
        }
    )


def _facts_key(lane: str) -> str:
    return f"shared/{lane}"


def _base_key(lane: str) -> str:
    return f"base/{lane}"


def _entry_prefix(lane: str) -> str:
    return f"entry/{lane}/"


def _entry_key(lane: str, place: int) -> str:
    return f"{_entry_prefix(lane)}{place:020}"

"""An entry point's copy of a shared lane, as the source's store holds it.

    shared/LANE          terms, votes, lives, how far it is released: everything but the entries
    entry/LANE/PLACE     an entry, as bytes, until every entry point has released it
    base/LANE            what was at the place before the first of them, without its rows

Only what changed is written. Entries are read when they are needed: what is released and kept for a peer that is away
takes no memory.
"""

from __future__ import annotations

import json
from typing import Any, Final

from anabranch.core.shared_lane import LaneCopy
from anabranch.errors import check
from anabranch.node.decided import Decided
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class Held:
    """The bytes of an entry: in memory while they are on their way, on disk afterwards."""

    __slots__ = ("_body", "_decided", "_key", "size")

    def __init__(
        self,
        *,
        body: bytes | None = None,
        key: str | None = None,
        size: int | None = None,
        decided: Decided | None = None,
    ) -> None:
        """``decided`` is what the body says, where that is known."""
        self._body = body
        self._decided = decided
        self._key = key
        self.size: Final = len(body) if body is not None else size or 0

    def read(self, store: Store) -> bytes:
        if self._body is not None:
            return self._body
        check(self._key is not None, "An entry of a lane is neither in memory nor on disk.")
        body = store.get(self._key or "")
        check(body is not None, f"The entry {self._key} of a lane is gone.")
        return body or b""

    def decided(self, store: Store, origin: str) -> Decided:
        """``origin`` is that of the lane."""
        return self._decided or Decided.from_bytes(self.read(store), origin)

    def write(self, transaction: Transaction, key: str) -> None:
        check(self._body is not None, f"The entry {key} of a lane was to be written, and is not in memory.")
        transaction.put(key, self._body or b"")
        self._key = key

    def leave_memory(self) -> None:
        if self._key is not None:
            self._body = self._decided = None


Copy = LaneCopy[Held]


def load(store: Store, lane: str) -> Copy | None:
    stored = store.get(_facts_key(lane))
    if stored is None:
        return None
    facts: dict[str, Any] = json.loads(stored)
    sizes, count = store.sizes(_entry_prefix(lane)), facts.pop("entries")
    check(len(sizes) == count, f"Lane {lane!r} has {len(sizes)} entries, and should have {count}.")
    entries = tuple(Held(key=key, size=size) for key, size in sizes.items())
    base = store.sizes(_base_key(lane)).get(_base_key(lane))
    return LaneCopy(**facts, entries=entries, base=None if base is None else Held(key=_base_key(lane), size=base))


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


def is_same(before: Copy, after: Copy) -> bool:
    """Whether there is nothing to write. How far all have released is heard again."""
    if after is before:
        return True
    if (
        before.released != after.released
        or before.held != after.held
        or before.term != after.term
        or before.leader != after.leader
        or before.voted_for != after.voted_for
        or before.trimmed != after.trimmed
        or before.whole != after.whole
        or before.learns != after.learns
        or before.lives != after.lives
    ):
        return False
    pairs = zip(before.between(before.released, before.held), after.between(after.released, after.held), strict=True)
    return all(old is new for old, new in pairs)


def added_bytes(before: Copy, after: Copy) -> int:
    """How much more the entries of a lane take than before."""
    first = max(before.released, after.trimmed)
    lost = (*before.between(before.trimmed, min(after.trimmed, before.held)), *before.between(first, before.held))
    new = after.between(first, after.held)
    return sum([entry.size for entry in new]) - sum([entry.size for entry in lost])


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
    ).encode()


def _facts_key(lane: str) -> str:
    return f"shared/{lane}"


def _base_key(lane: str) -> str:
    return f"base/{lane}"


def _entry_prefix(lane: str) -> str:
    return f"entry/{lane}/"


def _entry_key(lane: str, place: int) -> str:
    return f"{_entry_prefix(lane)}{place:020}"

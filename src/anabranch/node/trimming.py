"""Trimming a log: as much as there is, in transactions that are short enough for everybody else.

A named reader that makes a log reach its limit is cut off, so that the others can go on. The stages and writers of this
node are never cut off: without what they have not read they could not go on at all, so a full log waits for them.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from anabranch import limits
from anabranch.storage.log import Log
from anabranch.storage.store import Store

ROUNDS: Final = 100
"""Transactions of one trim: 25,600 segments a second, more than a node can take in."""


def is_large(log: Log) -> bool:
    """Whether a log must be trimmed soon: it takes room, or is on its way to its limit."""
    return log.bytes() >= min(limits.TRIM_SOON_BYTES, log.spec.limit_bytes // 4)


def trim_log(store: Store, log: Log, *, keep: Set[str], now_us: int) -> None:
    """Deletes what every reader has acknowledged, or what is too old where there is none."""
    if log.is_full():
        with store.transaction() as transaction:
            transaction.make_room(log.name, now_us=now_us, keep=keep)
    for _ in range(ROUNDS):
        with store.transaction() as transaction:
            if not transaction.trim(log.name, now_us=now_us):
                return

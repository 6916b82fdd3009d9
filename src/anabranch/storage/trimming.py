"""What a log may forget: which segments a trim deletes, and which readers must go so that it can.

Only decisions; the transaction carries them out. Must not write.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from anabranch.storage.connection import Connection
from anabranch.storage.state import LogState, Mark, find_mark

TRIM_SEGMENTS: Final = 256
TRIM_BYTES: Final = 256 << 20
"""What one trim deletes at most: it has the write lock, and SQLite reads every page that it frees."""


def last_doomed(connection: Connection, state: LogState, now_us: int) -> int | None:
    """The last segment that a trim may delete now."""
    last: Mark | None = None
    for seq, last_id, end_bytes, appended_us in connection.execute(
        "SELECT seq, last_id, end_bytes, appended_us FROM segments WHERE log = ? ORDER BY seq LIMIT ?",
        (state.number, TRIM_SEGMENTS),
    ).fetchall():
        held_bytes = state.end.bytes - (last or state.trimmed).bytes
        if not _doomed(state, seq=seq, held_bytes=held_bytes, age_us=now_us - appended_us):
            break
        if last and end_bytes - state.trimmed.bytes > TRIM_BYTES:
            break
        last = Mark(seq, last_id, end_bytes)
    return last.seq if last else None


def slowest_in_the_way(connection: Connection, state: LogState, keep: Set[str]) -> list[str]:
    """The readers to cut off: those for whom the log holds as much as it may, if there are others, who read faster.

    Readers in ``keep`` are never cut off, and where one of them is among the slowest nothing is gained by cutting.
    """
    slowest_seq = min(state.readers.values(), default=0)
    slowest = sorted(name for name, seq in state.readers.items() if seq == slowest_seq)
    if len(slowest) == len(state.readers) or keep & set(slowest):
        return []
    mark = find_mark(connection, state, slowest_seq) or state.trimmed
    return slowest if state.end.bytes - mark.bytes >= state.spec.limit_bytes else []


def _doomed(state: LogState, *, seq: int, held_bytes: int, age_us: int) -> bool:
    """Whether the oldest segment may go, when ``held_bytes`` are held with it."""
    if state.readers:
        return seq <= min(state.readers.values())
    return age_us > state.spec.retention_us or held_bytes > state.spec.limit_bytes

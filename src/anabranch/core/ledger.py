"""Exactly once: may a log take this batch of a Spark query, or does it have it already?

Spark runs a batch again after a crash, with the same id and the same source ranges; its checkpoint may also be lost,
restored from an old copy, or belong to another log. The log stores, with the rows and in their transaction, the record
of the last batch; this module compares it with the one that Spark brings. Knows nothing of how either is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from anabranch.errors import AnabranchError, InvariantBroken, StateError

Ranges = Mapping[str, tuple[int, int]]
"""Per input stream: the segment after which the batch begins, and the last one it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Which batch of which checkpoint, and what it read."""

    lineage: str
    batch_id: int
    ranges: Ranges


class Decision(Enum):
    APPEND = auto()
    SKIP = auto()


class Relation(Enum):
    """How a batch stands to the last one that the log holds."""

    FIRST = auto()
    NEXT = auto()
    REPEATED = auto()
    REPEATED_OTHERWISE = auto()
    NEXT_ELSEWHERE = auto()
    CHECKPOINT_AHEAD = auto()
    CHECKPOINT_BEHIND = auto()
    FOREIGN = auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    error: type[AnabranchError]
    story: str
    remedy: str


_BUG: Final = "This is a bug in Anabranch; please report it with the node's log."
_RESTORE: Final = (
    "Log and checkpoint belong together: restore both from the same backup, or start with an empty state directory."
)

VERDICTS: Final[Mapping[Relation, Decision | Refusal]] = {
    Relation.FIRST: Decision.APPEND,
    Relation.NEXT: Decision.APPEND,
    Relation.REPEATED: Decision.SKIP,
    Relation.REPEATED_OTHERWISE: Refusal(InvariantBroken, "Spark ran the batch again with different input", _BUG),
    Relation.NEXT_ELSEWHERE: Refusal(InvariantBroken, "the batch does not begin where the last one ended", _BUG),
    Relation.CHECKPOINT_AHEAD: Refusal(
        StateError, "the log lacks the batches between: it is older than the checkpoint", _RESTORE
    ),
    Relation.CHECKPOINT_BEHIND: Refusal(StateError, "the checkpoint is older than the log", _RESTORE),
    Relation.FOREIGN: Refusal(StateError, "the checkpoint belongs to another log", _RESTORE),
}


def decide(stage: str, last: Batch | None, new: Batch) -> Decision:
    """Append the batch of ``stage``, skip it as a repetition, or stop with an error that tells why neither is right."""
    verdict = VERDICTS[relation(last, new)]
    if isinstance(verdict, Decision):
        return verdict
    held = f"the log holds {_describe(last)}" if last else "the log is empty"
    message = f"Stage {stage!r} delivered {_describe(new)}, but {held}: {verdict.story}."
    raise verdict.error(message, remedy=verdict.remedy)


def relation(last: Batch | None, new: Batch) -> Relation:
    if last is None:
        return Relation.FIRST if new.batch_id == 0 else Relation.CHECKPOINT_AHEAD
    if new.lineage != last.lineage:
        return Relation.FOREIGN
    if new.batch_id == last.batch_id:
        return Relation.REPEATED if dict(new.ranges) == dict(last.ranges) else Relation.REPEATED_OTHERWISE
    if new.batch_id == last.batch_id + 1:
        return Relation.NEXT if _continues(last.ranges, new.ranges) else Relation.NEXT_ELSEWHERE
    return Relation.CHECKPOINT_AHEAD if new.batch_id > last.batch_id else Relation.CHECKPOINT_BEHIND


def _continues(last: Ranges, new: Ranges) -> bool:
    """Each input goes on where it was left, and not back."""
    return last.keys() == new.keys() and all(last[name][1] == start <= end for name, (start, end) in new.items())


def _describe(batch: Batch) -> str:
    ranges = ", ".join(f"{stream} {start}..{end}" for stream, (start, end) in sorted(batch.ranges.items()))
    return f"batch {batch.batch_id} of checkpoint {batch.lineage} ({ranges or 'no input'})"

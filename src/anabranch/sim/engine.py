"""The reference with Spark's batch behaviour: a plan that is written first, a commit that comes last.

A batch is planned (its ranges are durable before it runs), run, logged, and committed. After a crash the batch that was
logged and not committed runs again, with the same input, from the state after the last commit, and the log knows it
again. One that was planned and never logged is planned anew: nobody has seen anything of it. A punctuation works one
batch late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.core.ledger import Batch
from anabranch.model.punctuation import Punctuations
from anabranch.reference.stage import BatchResult, StageReference
from anabranch.reference.tuples import Tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The input of one batch, per stream: segments ``(start, end]`` with their tuples, and the promises at the end."""

    ranges: Mapping[str, tuple[int, int]]
    tuples: Mapping[str, tuple[Tuple, ...]]
    promises: Mapping[str, Punctuations]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """``done`` stands for the state: it can be computed from it again."""

    lineage: str
    done: tuple[Plan, ...] = ()
    planned: Plan | None = None
    logged: Batch | None = None
    """The last batch in the log. It is written with it, in one transaction."""
    offsets: Mapping[str, int] = field(default_factory=dict)

    @property
    def batch(self) -> Batch:
        """The batch that is planned."""
        assert self.planned is not None
        return Batch(lineage=self.lineage, batch_id=len(self.done), ranges=self.planned.ranges)

    def rolled_back(self) -> Checkpoint:
        """As a stage begins with it: a plan is kept only if its batch is in the log."""
        is_logged = self.planned is not None and self.logged == self.batch
        return self if is_logged else replace(self, planned=None)

    def committed(self) -> Checkpoint:
        assert self.planned is not None
        ends = {stream: end for stream, (_, end) in self.planned.ranges.items()}
        return replace(self, done=(*self.done, self.planned), planned=None, offsets={**self.offsets, **ends})


class Engine:
    """One stage in memory; made from its checkpoint at every start."""

    def __init__(self, reference: StageReference, checkpoint: Checkpoint) -> None:
        self._reference = reference
        self._heard_us = 0
        self._used_us = 0
        for plan in checkpoint.done:
            self.run(plan)

    def run(self, plan: Plan) -> BatchResult:
        result = self._reference.run(plan.tuples, plan.promises)
        self._used_us = result.watermark_us
        self._heard_us = self._reference.watermark_us
        return result

    @property
    def watermark_us(self) -> int:
        """What the last batch ran with."""
        return self._used_us

    def watermark_after(self, promises: Mapping[str, Punctuations]) -> int:
        return self._reference.watermark_after(promises)

    @property
    def has_unused_watermark(self) -> bool:
        """Whether a batch without rows would still do something."""
        return self._heard_us > self._used_us

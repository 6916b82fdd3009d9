"""Deterministic order, for comparison with racing: the inputs of a box take turns by stream time.

As section 2.2 of the racing paper describes the method of DPC: a replica of a Union postpones a tuple until it is sure
that all that is still to come is more recent. What comes of an input waits here, before the inlet's journal: it is
neither stored nor acknowledged. It passes when every other input of the box has promised that nothing earlier will
come; equal times go by the name of the stream. So all replicas journal the pieces of a box in one order. In which order
Spark unites the rows of one micro-batch is Spark's own.

A silent input holds all others, however long that lasts: that is the price that is to be measured. A promise is never
below the last time of what comes with it, so that the earliest of those that wait can always go on. Whoever deploys
sees to that (``deploy.comparing``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.limits import FOLLOW_WAIT_S
from anabranch.model.header import STIME
from anabranch.model.punctuation import smallest
from anabranch.query.assigned import AssignedQuery
from anabranch.transport.ports import CopyPiece

Hold = Callable[[CopyPiece, Callable[[], bool]], None]
"""Returns when the piece may be taken, or when it is over."""


def at_once(piece: CopyPiece, over: Callable[[], bool]) -> None:
    """Nothing is held."""


def holds(part: AssignedQuery) -> dict[str, Hold]:
    """What holds each stream that the node reads from elsewhere: one turn for each stage that takes it."""
    origins = part.origins()
    turns = [
        Turns({stream: origins[stream] for stream in stage.inputs if stream in part.upstream}) for stage in part.stages
    ]
    return {stream: _hold(stream, [each for each in turns if stream in each.inputs]) for stream in part.upstream}


def _hold(stream: str, turns: list[Turns]) -> Hold:
    def hold(piece: CopyPiece, over: Callable[[], bool]) -> None:
        for each in turns:
            each.promised(stream, piece)
        for each in turns:
            each.wait(stream, piece, over)

    return hold


class Turns:
    """The inputs of one stage, each with the origins that it can have. Any thread may bring what a copy sent."""

    def __init__(self, inputs: Mapping[str, Iterable[str]]) -> None:
        self.inputs: Final = {stream: tuple(origins) for stream, origins in inputs.items()}
        self._promised: Final = dict.fromkeys(inputs, 0)
        self._news: Final = threading.Condition()

    def promised(self, stream: str, piece: CopyPiece) -> None:
        """What the piece promises counts at once, also while its rows wait."""
        promised = smallest(piece.promises, self.inputs[stream])
        with self._news:
            if promised > self._promised[stream]:
                self._promised[stream] = promised
                self._news.notify_all()

    def wait(self, stream: str, piece: CopyPiece, over: Callable[[], bool]) -> None:
        """Until it is the turn of the last of its rows."""
        if not piece.rows.num_rows:
            return
        time_us = int(np.max(piece.rows.column(STIME).cast(pa.int64()).to_numpy()))
        with self._news:
            while not self._is_next(stream, time_us) and not over():
                self._news.wait(FOLLOW_WAIT_S)

    def _is_next(self, stream: str, time_us: int) -> bool:
        """Whether no other input can bring anything that goes before."""
        return all(
            (promised, other) > (time_us, stream) for other, promised in self._promised.items() if other != stream
        )

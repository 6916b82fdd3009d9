"""A lane with its state, for tests that tell what happened to it one line at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.lane import Lane
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    BoundaryArrived,
    ClockTicked,
    CloseArrived,
    EntryPointStarted,
    Event,
    ProducerRegistered,
    RowsArrived,
    VoidsArrived,
)
from anabranch.core.lane_state import LaneRules, LaneState


class LaneStory:
    def __init__(self, **rules: Any) -> None:
        self.lane = Lane("sensors", LaneRules(**rules))
        self.state = LaneState()
        self.now_us = 1_000

    @property
    def punctuation(self) -> int:
        return self.lane.punctuation(self.state)

    def handle(self, event: Event) -> list[Action]:
        self.state, actions = self.lane.handle(self.state, event)
        return actions

    def start(self, now_us: int) -> None:
        self.now_us = now_us
        assert self.handle(EntryPointStarted(now_us=now_us)) == []

    def tick(self, now_us: int) -> list[Action]:
        self.now_us = now_us
        return self.handle(ClockTicked(now_us=now_us))

    def register(self, producer: str) -> AnswerRegistration:
        (answer,) = self.handle(ProducerRegistered(producer=producer, now_us=self.now_us))
        assert isinstance(answer, AnswerRegistration)
        return answer

    def push(self, times: Sequence[int | None] | int, **sender: Any) -> list[Action]:
        """Rows with these times (None is NULL), or so many rows without."""
        if isinstance(times, int):
            return self.handle(RowsArrived(count=times, now_us=self.now_us, **sender))
        column = np.array([time or 0 for time in times], dtype=np.int64)
        nulls = np.array([time is None for time in times], dtype=np.bool_)
        return self.handle(RowsArrived(count=len(times), times=column, nulls=nulls, now_us=self.now_us, **sender))

    def boundary(self, time_us: int, **sender: Any) -> list[Action]:
        return self.handle(BoundaryArrived(time_us=time_us, now_us=self.now_us, **sender))

    def voids(self, count: int, **sender: Any) -> list[Action]:
        return self.handle(VoidsArrived(count=count, now_us=self.now_us, **sender))

    def close(self, **sender: Any) -> list[Action]:
        return self.handle(CloseArrived(now_us=self.now_us, **sender))


def answer(actions: list[Action]) -> Answer:
    """The answer, which is always the last action."""
    assert isinstance(actions[-1], Answer), actions
    return actions[-1]

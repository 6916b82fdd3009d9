"""A lane is a function of its entries: batches, repetitions, restarts and lost transactions do not show in it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.core.lane import Lane
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    AppendBoundary,
    AppendClose,
    AppendRows,
    AppendVoids,
    BoundaryArrived,
    ClockTicked,
    CloseArrived,
    Entry,
    ProducerRegistered,
    Refuse,
    RowsArrived,
    VoidsArrived,
)
from anabranch.core.lane_state import LaneRules, LaneState
from anabranch.model.times import CLOSED_US

Said = tuple[str, int]
"""One entry as its client says it: a row or a boundary with its time, a void, or the end."""

seeds = st.integers(min_value=0, max_value=1 << 32)
times = st.integers(min_value=1, max_value=60)
timed_entries = st.lists(
    st.one_of(
        st.tuples(st.just("row"), times),
        st.tuples(st.just("boundary"), times),
        st.tuples(st.just("void"), st.just(0)),
    ),
    max_size=30,
)


@dataclass
class Trace:
    """What a lane made of its entries, one item per number."""

    entries: list[tuple[int, str, int, bool]] = field(default_factory=list)
    punctuations: dict[int, int] = field(default_factory=dict)

    def record(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case AppendRows():
                    columns = (action.numbers.tolist(), action.stamps.tolist(), action.late.tolist())
                    self.entries += [(n, "row", stamp, late) for n, stamp, late in zip(*columns, strict=True)]
                    self.punctuations[action.numbers.tolist()[-1]] = action.punctuation_us
                case AppendBoundary():
                    self.entries.append((action.number, "boundary", action.punctuation_us, False))
                    self.punctuations[action.number] = action.punctuation_us
                case AppendVoids():
                    self.entries += [(action.first + n, "void", 0, False) for n in range(action.count)]
                case AppendClose():
                    self.entries.append((action.number, "close", action.punctuation_us, False))


def one_by_one(entries: list[Said], disorder: int) -> Trace:
    """The definition, row by row: late iff below an earlier boundary or the largest earlier time less the disorder."""
    trace = Trace()
    earlier_times: list[int] = []
    earlier_boundaries: list[int] = []
    for number, (kind, time) in enumerate(entries, start=1):
        promise = max([0, *earlier_boundaries, *(each - disorder for each in earlier_times)])
        if kind == "row":
            trace.entries.append((number, "row", max(time, promise), time < promise))
            earlier_times.append(time)
        elif kind == "boundary":
            earlier_boundaries.append(time)
            trace.entries.append((number, "boundary", max(promise, time), False))
        else:
            trace.entries.append((number, "void", 0, False))
        trace.punctuations[number] = max([0, *earlier_boundaries, *(each - disorder for each in earlier_times)])
    return trace


def message(kind: str, entries: list[Said], first: int, session: int, now_us: int) -> Entry:
    sender = {"producer": "gauge", "session": session, "first": first}
    column = np.array([time for _, time in entries], dtype=np.int64)
    match kind:
        case "row":
            return RowsArrived(count=len(entries), times=column, now_us=now_us, **sender)  # type: ignore[arg-type]
        case "boundary":
            return BoundaryArrived(time_us=entries[0][1], now_us=now_us, **sender)  # type: ignore[arg-type]
        case "void":
            return VoidsArrived(count=len(entries), now_us=now_us, **sender)  # type: ignore[arg-type]
    return CloseArrived(now_us=now_us, **sender)  # type: ignore[arg-type]


def run(seed: int, lane: Lane, entries: list[Said]) -> tuple[Trace, LaneState]:
    """A client that sends the entries in any batches, sends parts again, loses answers and restarts; a node that
    restarts from its bytes and whose transactions sometimes fail."""
    chance = random.Random(seed)
    trace, state, now_us, session = Trace(), LaneState(), 1_000, 0
    sent = 0
    while sent < len(entries) or session == 0:
        now_us += chance.randint(0, 5)
        if session == 0 or chance.random() < 0.1:
            state, (registered,) = lane.handle(state, ProducerRegistered(producer="gauge", now_us=now_us))
            assert isinstance(registered, AnswerRegistration)
            session, sent = registered.session, registered.next_number - 1
            continue
        first = sent if chance.random() < 0.7 else chance.randint(0, sent)
        same = next((n for n in range(first, len(entries)) if entries[n][0] != entries[first][0]), len(entries))
        last = first + 1 if entries[first][0] == "boundary" else chance.randint(first + 1, same)
        event = message(entries[first][0], entries[first:last], first + 1, session, now_us)
        after, actions = lane.handle(state, event)
        assert isinstance(actions[-1], Answer), actions
        assert actions[-1].accepted_through == last
        assert actions[-1].next_number == max(sent, last) + 1
        if chance.random() < 0.1:  # the transaction fails
            continue
        state = LaneState.from_bytes(after.to_bytes()) if chance.random() < 0.5 else after
        trace.record(actions)
        sent = max(sent, last)
    return trace, state


@given(seed=seeds, entries=timed_entries, disorder=st.integers(0, 20))
def test_a_timed_lane_is_a_function_of_its_entries(seed: int, entries: list[Said], disorder: int) -> None:
    lane = Lane("gauge", LaneRules(producer="gauge", timed=True, disorder_us=disorder))
    trace, state = run(seed, lane, entries)
    definition = one_by_one(entries, disorder)
    assert trace.entries == definition.entries
    assert trace.punctuations.items() <= definition.punctuations.items()
    assert lane.punctuation(state) == (definition.punctuations[len(entries)] if entries else 0)
    assert state.next_number == len(entries) + 1


@given(seed=seeds, entries=timed_entries)
def test_an_owned_lane_knows_a_client_again(seed: int, entries: list[Said]) -> None:
    lane = Lane("0", LaneRules(timed=True, disorder_us=7))
    trace, _ = run(seed, lane, entries)
    assert trace.entries == one_by_one(entries, 7).entries


@given(seed=seeds, steps=st.lists(st.integers(0, 5), max_size=30), close=st.booleans())
def test_a_producers_own_stamps_are_kept_whatever_the_batches(seed: int, steps: list[int], close: bool) -> None:
    entries = [("row", 1 + sum(steps[: n + 1])) for n in range(len(steps))] + ([("close", 0)] if close else [])
    lane = Lane("gauge", LaneRules(producer="gauge"))
    trace, state = run(seed, lane, entries)
    rows = [(n, "row", time, False) for n, (kind, time) in enumerate(entries, start=1) if kind == "row"]
    assert trace.entries == rows + ([(len(entries), "close", CLOSED_US, False)] if close else [])
    assert state.closed is close


clock_events = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(-3, 12)),
        st.tuples(st.just("push"), st.integers(-3, 12)),
        st.tuples(st.just("boundary"), st.integers(-3, 12)),
    ),
    max_size=40,
)


@given(
    data=st.data(),
    happened=clock_events,
    timed=st.booleans(),
    disorder=st.integers(0, 10),
    idle=st.none() | st.integers(0, 20),
)
def test_what_an_owned_lane_promises_is_true_at_every_moment(
    data: st.DataObject, happened: list[tuple[str, int]], timed: bool, disorder: int, idle: int | None
) -> None:
    """Whatever the clock does, back included: promises never go back, no stamp of either stream is below one."""
    lane = Lane("0", LaneRules(timed=timed, disorder_us=disorder, idle_us=idle, boundary_interval_us=5))
    state, now_us, promised, number = LaneState(), 100, 0, 0
    for kind, step in happened:
        now_us += step
        if kind == "tick":
            state, actions = lane.handle(state, ClockTicked(now_us=now_us))
        elif kind == "boundary":
            time_us = data.draw(st.integers(1, 200))
            state, actions = lane.handle(state, BoundaryArrived(time_us=time_us, now_us=now_us))
        else:
            column = np.array(data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=5)), dtype=np.int64)
            rows = RowsArrived(count=len(column), times=column if timed else None, now_us=now_us)
            state, actions = lane.handle(state, rows)
        for action in actions:
            if isinstance(action, AppendRows):
                assert (action.stamps >= promised).all()
                late = action.stamps[action.late]
                assert (np.diff(late) >= 0).all(), "the late stream is in order, so the lane's promise holds for it"
                assert action.numbers.tolist() == list(range(number + 1, number + 1 + len(action.numbers)))
                number += len(action.numbers)
            if isinstance(action, AppendBoundary):
                number += 1
                assert action.number == number
            assert isinstance(action, AppendRows | AppendBoundary | Answer) or (
                isinstance(action, Refuse) and kind == "boundary" and not timed
            )
        assert lane.punctuation(state) >= promised
        promised = lane.punctuation(state)
        state = LaneState.from_bytes(state.to_bytes())

"""Random scripts of pushes. One start of Spark serves many cases: each has an epoch of stream time to itself.

Nothing reaches from one epoch into another, because windows and joins are shorter than the silence between them; only
an Aggregate that counts goes on counting. But lanes do not move together: one may be epochs ahead of another, or say
nothing for a while.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from anabranch.query.boxes import Diagram, Source
from tests.fuzz.diagrams import TIME
from tests.fuzz.values import draw
from tests.recording import Push

EPOCH_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)
START: Final = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH_S: Final = 60
BUSY_S: Final = 8
"""The part of an epoch that has rows: the rest is longer than any window, join or disorder."""

Lane = tuple[str, str | None]


def random_script(random: Random, diagram: Diagram, epochs: int) -> list[Push]:
    """Ties, times at a punctuation, late rows, lanes ahead of others and idle, boundaries, the end of every lane."""
    ready = {
        (source.name, producer): [
            push for epoch in range(epochs) for push in _pushes(random, source, producer, epoch * EPOCH_S)
        ]
        for source in diagram.sources
        for producer in (source.producers or (None,))
    }
    total = {lane: len(pushes) + 1 for lane, pushes in ready.items()}
    steps: list[Push] = []
    while any(ready.values()):
        waiting = [lane for lane, pushes in ready.items() if pushes]
        slowest = max(waiting, key=lambda lane: len(ready[lane]) / total[lane])
        steps.append(ready[slowest if random.random() < 0.6 else random.choice(waiting)].pop(0))
    return [*steps, *(Push(source=source, producer=producer, close=True) for source, producer in ready)]


def epoch_of(push: Push) -> int | None:
    """The epoch that a push belongs to; None for the end of a lane."""
    times = [us(row[TIME]) for row in push.rows]
    if push.boundary_us is not None:
        times.append(push.boundary_us)
    return (max(times) - us(START)) // (EPOCH_S * 1_000_000) if times else None


def us(moment: object) -> int:
    """Microseconds since 1970."""
    assert isinstance(moment, datetime)
    return (moment - EPOCH_ZERO) // timedelta(microseconds=1)


def _pushes(random: Random, source: Source, producer: str | None, begin_s: float) -> list[Push]:
    """What one lane has to say in one epoch."""
    pushes = []
    now = begin_s
    disorder_s = source.disorder_us / 1e6
    for _ in range(random.choice((0, 1, 2, 2, 3))):
        if random.random() < 0.2:
            time = us(START + timedelta(seconds=now)) + random.choice((0, 0, 1, 500))
            pushes.append(Push(source=source.name, producer=producer, boundary_us=time))
        else:
            times = [max(begin_s, now + _offset(random, disorder_s)) for _ in range(random.randint(1, 6))]
            if not disorder_s and random.random() < 0.8:
                times.sort()  # otherwise most of its rows would be late
            rows = tuple(_row(random, source, second) for second in times)
            pushes.append(Push(source=source.name, producer=producer, rows=rows))
        now = min(begin_s + BUSY_S, now + random.choice((0.0, 0.5, 1.0, 2.0, 4.0)))
    return pushes


def _offset(random: Random, disorder_s: float) -> float:
    """Most rows lie on a grid of half seconds, so that there are ties and times that equal a punctuation."""
    return random.choice((-disorder_s, -disorder_s / 2, -0.5, 0.0, 0.0, 0.5, 1.0, 0.000001, 0.0005))


def _row(random: Random, source: Source, second: float) -> dict[str, object]:
    values = {column.name: draw(random, str(column.type)) for column in source.schema if column.name != TIME}
    return {**values, TIME: START + timedelta(seconds=second)}

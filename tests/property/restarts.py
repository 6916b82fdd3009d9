"""Restarts from an empty state, and what a class promises of them: section 3.2 of the high-availability paper.

One run serves many restarts, because each has an epoch of stream time to itself: windows and joins are shorter than the
silence between epochs, and no group comes twice. The failure-free run reads all epochs. The run that is held against
it begins with an empty state, in the middle of the input, and reads of each epoch only what comes after some point.

Every source numbers the rows of an epoch in a column of its own name, and every box carries the numbers on: of each
tuple that comes out, the smallest number of what it was made of, and the earliest time. So it can be said of a tuple of
the failure-free run whether the other one read all that it needs to make it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Final

import pyarrow as pa

import anabranch as ab
from anabranch.model.header import STIME
from anabranch.query.boxes import Box, Diagram, Stateful
from anabranch.query.judgement import OperatorClass, Order
from anabranch.reference.tuples import Tuple
from tests.recording import Push, Recording

START = datetime(2026, 3, 1, tzinfo=UTC)
START_US = round(START.timestamp()) * 1_000_000
EPOCH_S = 60
BUSY_S = 20
"""The part of an epoch that has rows."""
LOST_S = 6
"""The part of it in which a restart may lie: there is much to come after it."""
DISORDER_S = 2
CALM_EPOCHS = (1, 2)
"""The first that are read again, one after some rows and one at a time. They have a row of one group every 1.5 s, and
the restart loses an odd number of them. So what a Dedup lets pass, and where the timeout of a Tumble ends a run, is
shifted for ever: no other row comes in between that would end that."""
SHIFTED = frozenset({"dedup", "tumble_timeout", "wsort"})
"""What is shown by them. Random rows hardly ever do; they show what there is of all others."""
CALM_S = 1.5
EARLY: Final = 4
"""Rows of an epoch before ``LOST_S``, one every 1.5 s."""
LONGEST: Final = 5
"""Rows of the longest window of tuples."""
HIGHEST: Final = 4
"""A value that is larger than all others, and comes in the epoch that is lost, and at the end of each: a WSort that
knows of the first lets nothing else pass, and one that does not lets others pass for as long."""
Lane = tuple[str, str | None]
LANES: Sequence[Lane] = (("a", "left"), ("a", "right"), ("b", None))

_MADE_OF = "min(a) AS a, min(b) AS b, min(since) AS since, count(*) AS n, sum(v) AS v"


def every_box(*, long: bool) -> Diagram:
    """Each box has an output of its own, and reads nothing but sources. In a long run there are more windows."""
    query = ab.Query("classes")
    columns = "k string, v int, a int, b int, since timestamp"
    a = query.source("a", columns, time="since", disorder=f"{DISORDER_S}s", producers=("left", "right"))
    b = query.source("b", columns, time="since")
    right = b.map("k AS k2, v AS v2, b AS b2, since AS since2", name="right")
    pairs = [
        a.join(right, on="k = k2", within="3s", name="join"),
        a.latest(right, on="k = k2 AND v = v2", name="latest"),
        a.latest(right, on="k = k2", within="2s", outer=True, name="latest_within"),
    ]
    resampled = a.resample(right, "b2", how="nearest", within="2s", on="k = k2", name="resample")
    table = query.table("table", "t int, tv int", key="t", rows=[(1, 0), (2, 1), (3, 1), (4, 3)])
    boxes = [
        a.filter("v > 1", name="filter"),
        a.map("v * 2 AS v, a, b, since", name="map"),
        a.python("tests.python_functions:written", "text string, nulls int", deterministic=True, name="python"),
        a.drop(0.4, seed=7, name="drop_some"),
        a.drop("v = 2", name="drop_twos"),
        a.lookup(table, on="v = tv", name="lookup"),
        query.union(a, b, name="union"),
        a.aggregate(_MADE_OF, by="k", window="4s", every="2s", name="sliding"),
        a.aggregate(_MADE_OF, by="k", rows=3, name="threes"),
        a.aggregate(_MADE_OF, by="k", rows=3, every_rows=1, name="from_every_tuple"),
        a.session(_MADE_OF, by="k", gap="1s", name="session"),
        a.tumble(_MADE_OF, by="k", name="tumble"),
        a.tumble(_MADE_OF, by="k", timeout="2s", name="tumble_timeout"),
        a.slide(_MADE_OF, by="k", rows=3, name="slide"),
        a.slide(_MADE_OF, by="k", window="2s", every_rows=3, name="slide_every"),
        a.xsection(_MADE_OF, by="k", window="2s", every="1s", name="xsection"),
        a.wsort("v", timeout="1s", name="wsort")[0],
        a.dedup("k", horizon="3s", name="dedup"),
    ]
    if long:
        boxes += [
            a.aggregate(_MADE_OF, by="k", window="4s", name="tumbling"),
            a.aggregate(_MADE_OF, by="k", rows=4, every_rows=2, name="overlapping"),
            a.aggregate(_MADE_OF, by="k", rows=1, name="ones"),
            a.aggregate(_MADE_OF, by="k", window="4s", emit_rows=2, name="early_windows"),
            a.aggregate(_MADE_OF, by="k", rows=5, emit_rows=2, name="early_counts"),
            a.session(_MADE_OF, by="k", gap="1s", emit_rows=2, name="early_sessions"),
            a.tumble(_MADE_OF, by="k", emit_rows=2, name="early_runs"),
            a.slide(_MADE_OF, by="k", window="2s", name="slide_time"),
            a.slide(_MADE_OF, by="k", rows=3, every="2s", name="slide_moments"),
            a.slide(_MADE_OF, by="k", window="2s", every="1s", name="slide_time_moments"),
        ]
    for stream in boxes:
        query.output(output_of(stream.arrow.box), stream)
    for stream in pairs:
        earliest = "CASE WHEN since2 < since THEN since2 ELSE since END AS since"
        made_of = stream.map(f"k, a, b2 AS b, {earliest}", name=f"{stream.arrow.box}_made_of")
        query.output(output_of(stream.arrow.box), made_of)
    query.output(output_of("resample"), resampled.map("k, a, CAST(b2 AS int) AS b, since", name="resample_made_of"))
    return query.diagram()


def output_of(box: str) -> str:
    return f"{box}_out"


def boxes_with_outputs(diagram: Diagram) -> list[Box]:
    names = {output.name for output in diagram.outputs}
    return [box for box in diagram.boxes if output_of(box.name) in names]


def script(random: Random, epochs: int) -> list[Push]:
    """Rows of all lanes, in disorder where it is allowed; of each epoch those of ``a`` before those of ``b``."""
    steps = [
        push
        for epoch in range(epochs)
        for source in ("a", "b")
        for push in _pushes(random, source, [lane for lane in LANES if lane[0] == source], epoch)
    ]
    return [*steps, *(Push(source=source, producer=producer, close=True) for source, producer in LANES)]


def _pushes(random: Random, source: str, lanes: Sequence[Lane], epoch: int) -> Iterator[Push]:
    """The rows of a source in an epoch, numbered as they come."""
    ready = {lane: _rows(random, source, epoch) for lane in lanes}
    while source == "a" and not _settles([row for rows in ready.values() for row in rows], epoch):
        ready = {lane: _rows(random, source, epoch) for lane in lanes}
    if epoch in CALM_EPOCHS:
        ready = {lane: _calm_rows(random, epoch) if lane == lanes[0] else [] for lane in lanes}
    number = count()
    while any(ready.values()):
        lane = random.choice([lane for lane, rows in ready.items() if rows])
        size = random.randint(8, 12)
        taken, ready[lane] = ready[lane][:size], ready[lane][size:]
        yield Push(source=source, producer=lane[1], rows=tuple({**row, source: next(number)} for row in taken))


def _rows(random: Random, source: str, epoch: int) -> list[dict[str, object]]:
    seconds = [random.randrange(2 * BUSY_S) / 2 for _ in range(BUSY_S)]
    disorder_s = DISORDER_S if source == "a" else 0
    seconds.sort(key=lambda second: second + random.uniform(0, disorder_s * 0.99))
    return [_row(epoch, second, random.choice("xy"), random.randint(0, HIGHEST - 1)) for second in seconds] + [
        _row(epoch, BUSY_S, "x", HIGHEST)
    ]


def _settles(rows: Sequence[Mapping[str, object]], epoch: int) -> bool:
    """Whether each group has enough rows between any restart and what counts as the end for the longest window of
    tuples to be made of nothing else."""
    begin, end = (START + timedelta(seconds=epoch * EPOCH_S + second) for second in (LOST_S - 1, BUSY_S / 2))
    counts = Counter(row["k"] for row in rows if begin <= row["since"] < end)  # type: ignore[operator]
    return min(counts[f"{group}{epoch}"] for group in "xy") >= LONGEST


def _calm_rows(random: Random, epoch: int) -> list[dict[str, object]]:
    seconds = [CALM_S * number for number in range(round(BUSY_S / CALM_S))]
    values = [random.randint(0, HIGHEST - 1) for _ in seconds[:-2]] + [HIGHEST - 1, HIGHEST]
    return [_row(epoch, second, "z", value) for second, value in zip(seconds, values, strict=True)]


def _row(epoch: int, second: float, group: str, value: int) -> dict[str, object]:
    since = START + timedelta(seconds=epoch * EPOCH_S + second)
    return {"k": f"{group}{epoch}", "v": value, "a": None, "b": None, "since": since}


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Where an epoch is begun: after so many rows of each source, or at one time of all, whose rows are in order then.
    With neither it is read from its beginning."""

    epoch: int
    shows: frozenset[str] = frozenset()
    """The boxes that it is about; all if it is about none."""
    lost: Mapping[str, int] = field(default_factory=dict)
    since_us: int = 0

    def read_again(self, source: str, rows: pa.Table) -> list[int]:
        """The places of the rows of a source that are read, in the order in which they are."""
        times = times_of(rows)
        places = [
            place
            for place, (number, time) in enumerate(zip(rows.column(source).to_pylist(), times, strict=True))
            if epoch_of(time) == self.epoch and number >= self.lost.get(source, 0) and time >= self.since_us
        ]
        return sorted(places, key=times.__getitem__) if self.since_us else places

    def has_all_of(self, each: Tuple) -> bool:
        """Whether everything that a tuple was made of is read."""
        numbers = [(source, each.values[source]) for source in ("a", "b")]
        return each.values["since"] >= self.since_us and all(
            number is None or number >= self.lost.get(source, 0) for source, number in numbers
        )

    def lost_until(self, whole: Recording) -> int:
        """The time of the latest row that is not read; the epoch's beginning if all are."""
        lost = [
            time
            for source, rows in whole.rows.items()
            for place, time in enumerate(times_of(rows))
            if epoch_of(time) == self.epoch and place not in set(self.read_again(source, rows))
        ]
        return max(lost, default=START_US + self.epoch * EPOCH_S * 1_000_000)

    def is_in(self, order: Order) -> bool:
        """Whether there is such a restart where streams have this order."""
        match order:
            case Order.ARRIVAL:
                return not self.since_us
            case Order.NONE:
                return True
            case Order.CANONICAL:
                return not self.lost


def random_restarts(random: Random, whole: Recording, epochs: int, *, at_a_time_first: bool) -> list[Restart]:
    """After the first epoch, which is lost: in turn after some rows of each source, at a time, and at the beginning.

    The first is the only one that finds a box without groups, as WSort is, in an empty state.
    """
    kinds = [_after_rows, _at_a_time, lambda _, __, epoch: Restart(epoch=epoch)]
    calm = reversed(kinds[:2]) if at_a_time_first else kinds[:2]
    chosen = [*calm, *(kinds[number % 3] for number in range(epochs - 1 - len(CALM_EPOCHS)))]
    return [kind(random, whole, epoch) for epoch, kind in enumerate(chosen, start=1)]


def _after_rows(random: Random, whole: Recording, epoch: int) -> Restart:
    """In each source at another row, none of them so late that there were nothing to come back to."""
    if epoch in CALM_EPOCHS:
        lost = random.randrange(1, EARLY, 2)
        return Restart(epoch=epoch, shows=SHIFTED, lost={"a": lost, "b": lost})
    latest = START_US + (epoch * EPOCH_S + LOST_S) * 1_000_000
    early = {
        source: sum(epoch_of(time) == epoch and time < latest for time in times_of(rows))
        for source, rows in whole.rows.items()
    }
    return Restart(epoch=epoch, lost={source: random.randint(1, rows) for source, rows in early.items()})


def _at_a_time(random: Random, whole: Recording, epoch: int) -> Restart:
    """Between the beginnings of two windows, or every box would be repeatable."""
    seconds = (1.5, 4.5) if epoch in CALM_EPOCHS else (1.5, 3.0, 4.5, 5.0)
    second = epoch * EPOCH_S + random.choice(seconds)
    shows = SHIFTED if epoch in CALM_EPOCHS else frozenset[str]()
    return Restart(epoch=epoch, shows=shows, since_us=START_US + round(second * 1_000_000))


def times_of(rows: pa.Table) -> list[int]:
    return rows.column(STIME).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def epoch_of(time_us: int) -> int:
    return (time_us - START_US) // (EPOCH_S * 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The failure-free run, and the one that began with an empty state."""

    whole: Recording
    again: Recording
    restarts: Sequence[Restart]


def broken(box: Box, found: OperatorClass, order: Order, runs: Runs) -> list[str]:
    """What is wrong with saying that a box has this class, where streams have this order."""
    faults = []
    for restart in runs.restarts:
        if restart.is_in(order) and box.name in (restart.shows or {box.name}):
            before, after = (_epoch(run, box, restart.epoch) for run in (runs.whole, runs.again))
            for what, wanted, made in _promises(found, restart, runs.whole, before, after):
                fault = _difference(wanted, made, in_sequence=order is Order.ARRIVAL and not isinstance(box, Stateful))
                if fault:
                    faults.append(f"{box.name} is not {found} {order.value}: {restart}, {what}: {fault}")
    return faults


def _epoch(run: Recording, box: Box, epoch: int) -> list[Tuple]:
    """What was made of an epoch's rows, and in it. The last run of a Tumble is not: a row of the next epoch ends it,
    which the restart there may lose."""
    made = run.streams[output_of(box.name)].tuples
    return [each for each in made if epoch_of(each.values["since"]) == epoch == epoch_of(each.stime)]


def _promises(
    found: OperatorClass, restart: Restart, whole: Recording, before: list[Tuple], after: list[Tuple]
) -> Iterator[tuple[str, list[Tuple], list[Tuple]]]:
    """What a class promises, and with it all that more general ones do: tuples that should be equal."""
    if found <= OperatorClass.DETERMINISTIC and not restart.lost and not restart.since_us:
        yield "from the same beginning", before, after
    if found <= OperatorClass.CONVERGENT_CAPABLE:
        settled = (restart.lost_until(whole) + max(each.stime for each in before)) // 2
        yield "in the end", *([each for each in tuples if each.stime > settled] for tuples in (before, after))
    if found <= OperatorClass.REPEATABLE:
        yield "made again", [each for each in before if restart.has_all_of(each)], after


def _difference(wanted: list[Tuple], made: list[Tuple], *, in_sequence: bool) -> str | None:
    expected, got = [each.content for each in wanted], [each.content for each in made]
    more, less = Counter(got) - Counter(expected), Counter(expected) - Counter(got)
    if not expected:
        return "nothing to compare"
    if more or less:
        return f"{more.total()} tuples too much and {less.total()} missing of {len(expected)}"
    return "the same tuples in another order" if in_sequence and expected != got else None

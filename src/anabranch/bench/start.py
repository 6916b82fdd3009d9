"""``anabranch bench start``: how long it takes until a query that is started has a result, beside plain Spark.

Four starts. Three are processes of their own, from the command on: one stage; the same, killed with SIGKILL while it
has state and started again on what is on its disk; and four stages. The fourth is one more query in a host that is
warm: a JVM that has run such queries before, in which a stopped query starts again from its checkpoint.

Both sides take turns, in an order that changes from round to round, and medians are compared. A node is given its rows
as soon as it answers, while its Spark is still starting; plain Spark finds them as files when it begins.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from anabranch.bench.bench import Bench
from anabranch.bench.fresh import FIRST, FreshNode, FreshPlain
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.sides import CONF, Ours, Plain, Side, wait_for_results
from anabranch.bench.workloads import (
    Piece,
    Rows,
    first_of_each,
    first_rows,
    four_stages,
    workloads,
)

ONE_STAGE: Final = Bound(most=1.0)
ONE_STAGE_GOAL: Final = Bound(most=0.85)
FOUR_STAGES: Final = Bound(most=1.5)
FOUR_STAGES_GOAL: Final = Bound(most=1.3)
WARM_S: Final = Bound(most=1.0)

STATE_ROWS: Final = 50_000
"""Rows of one window of ten seconds that is open when a process is killed, or a query stopped: 1000 groups."""

COMMAND, RESTART, FOUR, WARM = "one stage", "restart after kill -9, with state", "four stages", "one more query, warm"

Kind = type[FreshNode | FreshPlain]
Seconds = dict[str, dict[str, list[float]]]
"""By what is started and by side, one for each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rounds: int
    warm_rounds: int
    """Starts of a query in the warm host."""
    cold_rounds: int
    """As many before them, which make it warm."""


FULL: Final = Plan(rounds=5, warm_rounds=9, cold_rounds=3)
QUICK: Final = Plan(rounds=1, warm_rounds=2, cold_rounds=1)


class StartBench(Bench[Plan]):
    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None], check: Callable[[], None]) -> None:
        super().__init__(plan, directory, say, check)
        self._starts = 0
        self._workload = next(each for each in workloads() if each.name == "window sum")

    def run(self, report: Report) -> None:
        seconds: Seconds = {what: {Ours.name: [], Plain.name: []} for what in (COMMAND, RESTART, FOUR, WARM)}
        for number in range(self._plan.rounds):
            kinds: tuple[Kind, ...] = (FreshNode, FreshPlain) if number % 2 == 0 else (FreshPlain, FreshNode)
            for kind in kinds:
                self._say(f"round {number + 1} of {self._plan.rounds}, {kind.name}: one stage")
                self._one_stage(kind, seconds)
            for kind in kinds:
                self._say(f"round {number + 1} of {self._plan.rounds}, {kind.name}: four stages")
                self._four_stages(kind, seconds)
        self._say("one more query in a warm host")
        for number in range(self._plan.cold_rounds + self._plan.warm_rounds):
            sides: tuple[type[Side], ...] = (Ours, Plain) if number % 2 == 0 else (Plain, Ours)
            for side in sides:
                took_s = self._one_more(side)
                if number >= self._plan.cold_rounds:
                    seconds[WARM][side.name].append(took_s)
        report.add(*compared(seconds))
        report.details["seconds of each round"] = {
            what: {side: [round(each, 2) for each in all_] for side, all_ in sides.items()}
            for what, sides in seconds.items()
        }

    # --- processes of their own ------------------------------------------------------------------------------------

    def _one_stage(self, kind: Kind, seconds: Seconds) -> None:
        """Its start, and then its start after a kill, when the rows of an open window are in its state."""
        rows = Rows(self._workload)
        state, closing = _without_end(rows.backlog(STATE_ROWS))
        directory = self._new_directory()
        with kind(self._workload.diagram, directory, CONF, self._check) as side:
            seconds[COMMAND][kind.name].append(side.start_s([("events", first_rows(FIRST))], FIRST - 1))
            side.feed(state)
            side.wait(FIRST)
            side.kill()
            self._say(f"{kind.name}: killed, and started again")
            seconds[RESTART][kind.name].append(side.start_s(closing, FIRST + rows.results()))
        shutil.rmtree(directory)

    def _four_stages(self, kind: Kind, seconds: Seconds) -> None:
        directory = self._new_directory()
        with kind(four_stages(), directory, CONF, self._check) as side:
            seconds[FOUR][kind.name].append(side.start_s(first_of_each(), 1))
        shutil.rmtree(directory)

    # --- in a warm host --------------------------------------------------------------------------------------------

    def _one_more(self, kind: type[Side]) -> float:
        """A query with state that was stopped: seconds from its start until a row that came then has its results."""
        rows = Rows(self._workload)
        state, closing = _without_end(rows.backlog(STATE_ROWS))
        directory = self._new_directory()
        side = kind(self._workload, directory, CONF)
        first = [("events", first_rows(FIRST))]
        with side:
            side.feed(side.prepare([*first, *state]))
            wait_for_results(side, FIRST, self._check)
        prepared = side.prepare(closing)
        began = time.monotonic()
        with side:
            side.feed(prepared)
            wait_for_results(side, FIRST + rows.results(), self._check)
            took_s = time.monotonic() - began
        shutil.rmtree(directory)
        return took_s

    def _new_directory(self) -> Path:
        self._starts += 1
        return self._directory / str(self._starts)


def compared(seconds: Seconds) -> list[Result]:
    def side_by_side(what: str, bound: Bound | None = None, goal: Bound | None = None) -> Result:
        value, baseline = (median(seconds[what][side]) for side in (Ours.name, Plain.name))
        return Result(name=what, value=value, unit="s", baseline=baseline, bound=bound, goal=goal)

    one_s, four_s = (median(seconds[what][Ours.name]) for what in (COMMAND, FOUR))
    return [
        side_by_side(COMMAND, ONE_STAGE, ONE_STAGE_GOAL),
        side_by_side(RESTART),
        side_by_side(FOUR),
        Result(
            name="four stages, to one stage",
            value=four_s / one_s,
            unit="times",
            bound=FOUR_STAGES,
            goal=FOUR_STAGES_GOAL,
        ),
        side_by_side(WARM),
        Result(name="the same, in seconds", value=median(seconds[WARM][Ours.name]), unit="s", bound=WARM_S),
    ]


def _without_end(pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The rows of a backlog with one source, and the row that closes their windows."""
    return pieces[:-1], pieces[-1:]

"""What the demo found, in numbers and in words, and whether it is what the scenario had put in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Final

from anabranch.demo.scenario import BUSY, NETWORK, Cause, Ping, Scenario

MEDIAN: Final = 0.5
P95: Final = 0.95


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of the values does not exceed; None if there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


@dataclass(frozen=True, slots=True)
class Tally:
    """Slow pings of one cause: how many were made, and how many came out where they belong, and nowhere else."""

    made: int
    right: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The demo in numbers. ``wrong`` pings came out where they do not belong, ``missing`` ones have not come."""

    seconds: float
    rows_in: Mapping[str, int]
    rows_out: Mapping[str, int]
    latency_median_s: float | None
    latency_p95_s: float | None
    causes: Mapping[str, Tally]
    wrong: int
    missing: int
    busy_server: str
    bad_path: str

    @property
    def is_right(self) -> bool:
        return not self.wrong and not self.missing

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"is_right": self.is_right}

    def words(self) -> list[str]:
        """What was found, as one would tell it."""
        busy, bad, lost = (self.causes[cause] for cause in Cause)
        told = []
        if bad.made:
            told.append(f"Path {self.bad_path}: {_of(bad)} slow pings are network problems. The path was bad.")
        if busy.made:
            told.append(
                f"Server {self.busy_server}: {_of(busy)} slow pings are the server's fault. It was busy; the "
                "network was fine."
            )
        if lost.made:
            told.append(f"Elsewhere: {_of(lost)} slow pings are network problems: isolated packet loss.")
        return [*told, self._verdict()]

    def _verdict(self) -> str:
        made = sum(tally.made for tally in self.causes.values())
        if not made:
            return "No slow pings yet."
        if self.is_right:
            return f"Correct: the query found the true cause of all {made:,} slow pings."
        problems = [f"{self.wrong:,} have the wrong cause"] if self.wrong else []
        problems += [f"{self.missing:,} did not come out in time"] if self.missing else []
        return f"Incorrect: of {made:,} slow pings, {' and '.join(problems)}."


def summarize(
    scenario: Scenario,
    *,
    seconds: float,
    rows_in: Mapping[str, int],
    rows_out: Mapping[str, int],
    slow: Sequence[Ping],
    found: Mapping[str, Set[int]],
    latencies_s: Sequence[float],
) -> Summary:
    """``slow`` are the pings that were made slow, ``found`` the numbers of those that came out of each output."""
    made: Counter[Cause] = Counter()
    right: Counter[Cause] = Counter()
    belongs: dict[str, set[int]] = {NETWORK: set(), BUSY: set()}
    for ping in slow:
        assert ping.cause is not None
        home, other = (BUSY, NETWORK) if ping.cause is Cause.BUSY_SERVER else (NETWORK, BUSY)
        belongs[home].add(ping.n)
        made[ping.cause] += 1
        right[ping.cause] += ping.n in found[home] and ping.n not in found[other]
    came = found[NETWORK] | found[BUSY]
    return Summary(
        seconds=round(seconds, 1),
        rows_in=dict(rows_in),
        rows_out=dict(rows_out),
        latency_median_s=percentile(latencies_s, MEDIAN),
        latency_p95_s=percentile(latencies_s, P95),
        causes={cause: Tally(made[cause], right[cause]) for cause in Cause},
        wrong=len((found[NETWORK] - belongs[NETWORK]) | (found[BUSY] - belongs[BUSY])),
        missing=sum(ping.n not in came for ping in slow),
        busy_server=scenario.busy_server,
        bad_path=scenario.bad_path_name,
    )


def _of(tally: Tally) -> str:
    return f"all {tally.made:,}" if tally.right == tally.made else f"{tally.right:,} of {tally.made:,}"

"""What section 5 of the racing paper says of its figures, and whether it holds in what was measured here.

Each claim is one comparison of two measured numbers, so that nothing is said that was not measured: its bound is on
their ratio, or on the number itself where there is only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from anabranch.bench.report import Bound, Result
from anabranch.paper.curves import MEDIAN, Arrivals
from anabranch.paper.racing import INPUT_1, INPUT_2, JOIN_OUT, UNION_OUT, Found
from anabranch.paper.wide_area import Protection

SETTLE_S: Final = 8.0
"""After the kill, tuples that were under way still come, and what was held is let go: after this time both are over."""

GAP_TIMES: Final = 1.5
"""A gap this much longer than the longest before counts as an interruption."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says, in one sentence, and the numbers that decide it here."""

    says: str
    result: Result

    def verdict(self) -> str:
        told = f"{self.result.value:.3g} {self.result.unit}".strip()
        if self.result.baseline is not None:
            told += f" against {self.result.baseline:.3g}"
        return f"{'holds' if self.result.ok else 'does not hold in this run'}: {self.says} ({told})"


def claims(found: Found) -> list[Claim]:
    """All that can be decided; nothing is, where no tuple came."""
    return [*_of_inputs(found), *_of_techniques(found)]


def before_kill(found: Found, technique: Protection) -> Arrivals:
    return found.techniques[technique].between(0, found.lengths.kill_s)


def after_kill(found: Found, technique: Protection) -> Arrivals:
    return found.techniques[technique].between(found.lengths.kill_s + SETTLE_S, found.lengths.end_s)


# --- figure 8 ------------------------------------------------------------------------------------------------------


def _of_inputs(found: Found) -> Iterator[Claim]:
    curves = found.inputs
    smallest = {name: curve.percentile(0) for name, curve in curves.items()}
    median = {name: curve.percentile(MEDIAN) for name, curve in curves.items()}
    join, union = median.get(JOIN_OUT), median.get(UNION_OUT)
    input_1, input_2 = median.get(INPUT_1), median.get(INPUT_2)
    if join is None or union is None or input_1 is None or input_2 is None:
        return
    first_join, first_union = smallest[JOIN_OUT], smallest[UNION_OUT]
    assert first_join is not None
    assert first_union is not None
    yield _above("figure 8: the smallest latency of Join is above that of Union", first_join, first_union)
    yield _below(
        "figure 8: their medians get closer to each other", join / union, first_join / first_union, unit="Join to Union"
    )
    yield _below(
        "figure 8: the slower input sets the pace of Join: its median is nearer to input 2 than to input 1",
        abs(join - input_2),
        abs(join - input_1),
    )
    yield _below("figure 8: Union is less sensitive to the slower input than Join", union, join)


# --- figure 9 ------------------------------------------------------------------------------------------------------


def _of_techniques(found: Found) -> Iterator[Claim]:
    before = {technique: before_kill(found, technique).percentile(MEDIAN) for technique in found.techniques}
    after = {technique: after_kill(found, technique).percentile(MEDIAN) for technique in found.techniques}
    if Protection.NO_REPLICATION in found.techniques:
        came = len(after_kill(found, Protection.NO_REPLICATION))
        stops = Result(name=_NO_OUTPUT, value=came, unit="tuples", bound=Bound(most=0))
        yield Claim(_NO_OUTPUT, stops)
    for technique in found.techniques:
        if technique.is_replicated:
            yield _goes_on(found, technique)
    none, replication = before.get(Protection.NO_REPLICATION), before.get(Protection.REPLICATION)
    later = after.get(Protection.REPLICATION)
    if replication is None or later is None:
        return
    if none is not None:
        yield _below("figure 9: replication reduces latency", replication, none)
    yield _above("figure 9: with replication, latency increases after the failure", later, replication)
    yield from _of_synchronization(replication, later, before, after)
    ordered = before.get(Protection.DETERMINISTIC)
    if ordered is not None:
        yield _above("figure 9: deterministic order costs latency that replication does not", ordered, replication)


_NO_OUTPUT: Final = "figure 9: without replication nothing comes out after the failure"


def _goes_on(found: Found, technique: Protection) -> Claim:
    arrivals, lengths = found.techniques[technique], found.lengths
    return _below(
        f"figure 9: with {technique} the failure does not interrupt the output: longest gap",
        arrivals.longest_gap_s(lengths.kill_s, lengths.end_s),
        arrivals.longest_gap_s(0, lengths.kill_s),
        times=GAP_TIMES,
    )


def _of_synchronization(
    replication: float,
    replication_later: float,
    before: dict[Protection, float | None],
    after: dict[Protection, float | None],
) -> Iterator[Claim]:
    held, released = before.get(Protection.SYNCHRONIZATION), after.get(Protection.SYNCHRONIZATION)
    if held is None or released is None:
        return
    yield _above("figure 9: synchronization costs latency that replication does not", held, replication)
    yield _below(
        "figure 9: after the failure synchronization is as replication: they differ less than before",
        abs(released - replication_later),
        abs(held - replication),
    )


def _above(says: str, value: float, baseline: float) -> Claim:
    return Claim(says, Result(name=says, value=value, unit="s", baseline=baseline, bound=Bound(least=1)))


def _below(says: str, value: float, baseline: float, *, unit: str = "s", times: float = 1) -> Claim:
    return Claim(says, Result(name=says, value=value, unit=unit, baseline=baseline, bound=Bound(most=times)))

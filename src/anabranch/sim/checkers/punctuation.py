"""Punctuation is true: when an inlet promises a time, everything below it has passed, and nothing below comes after."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.sim.observer import Broken, Noted, Passed, at
from anabranch.sim.truth import Truth


def check_punctuation(truth: Truth, noted: Sequence[Noted]) -> None:
    for each in noted:
        where = f"{each.node} for {each.stream}"
        for found in each.segment.tuples:
            if found.stime < each.promised.get(found.origin, 0):
                promised = each.promised[found.origin]
                raise Broken(f"{at(each.at_us)} {found.identity} came to {where}, which had promised {promised}.")
        if isinstance(each, Passed):
            _all_has_passed(truth, each)


def _all_has_passed(truth: Truth, passed: Passed) -> None:
    after = passed.after
    for origin, time in passed.segment.promises.items():
        if time == passed.promised.get(origin):
            continue
        for identity in truth.by_time.get((passed.stream, origin), ()):
            if identity[1] >= time:
                break
            if identity not in after:
                where = f"{passed.node} promised {time} for {origin} of {passed.stream}"
                raise Broken(f"{at(passed.at_us)} {where}, and {identity} has not passed.")

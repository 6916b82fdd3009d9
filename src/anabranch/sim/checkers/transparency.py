"""Transparency: no fault changes a stream. What passes an inlet or enters a log is what the failure-free run has there,
with the same columns, and nothing passes an inlet twice at any moment."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.sim.observer import Broken, Noted, Passed, at
from anabranch.sim.truth import Identity, Truth


def check_transparency(truth: Truth, noted: Sequence[Noted]) -> None:
    for each in noted:
        where = f"{'the inlet' if isinstance(each, Passed) else 'the log'} of {each.node} for {each.stream}"
        before = each.before if isinstance(each, Passed) else frozenset()
        seen: set[Identity] = set()
        for found in each.segment.tuples:
            identity = found.identity
            if identity in seen or identity in before:
                raise Broken(f"{at(each.at_us)} {identity} passed {where} twice.")
            seen.add(identity)
            wanted = truth.tuples[each.stream].get(identity)
            if wanted is not None and wanted.values == found.values:
                continue
            if wanted is None or wanted.content != found.content:
                raise Broken(f"{at(each.at_us)} {found} came to {where}; without faults it would be {wanted}.")

"""Every mutation of the reference still finds the words that it replaces. Whether Spark's runs contradict it is a long
test, which would tell too late that a rule was written anew."""

from __future__ import annotations

from tests.property.reference_rules import COUNTING, JOINS, LOOKUPS, ORDERED, SLIDING, WINDOWS


def test_every_rule_that_is_broken_on_purpose_is_still_there() -> None:
    for mutation in (*WINDOWS, *JOINS, *COUNTING, *ORDERED, *SLIDING, *LOOKUPS):
        with mutation.applied():
            pass

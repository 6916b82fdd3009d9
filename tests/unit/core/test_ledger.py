"""Which batches a log takes, which it has already, and which it must not take."""

from __future__ import annotations

import pytest

from anabranch.core.ledger import VERDICTS, Batch, Decision, Relation, decide, relation
from anabranch.errors import AnabranchError, InvariantBroken, StateError


def batch(batch_id: int, *, lineage: str = "c1", **ranges: tuple[int, int]) -> Batch:
    return Batch(lineage=lineage, batch_id=batch_id, ranges=ranges)


LAST = batch(4, ping=(10, 12), load=(3, 3))


def test_the_first_batch_of_a_checkpoint_begins_an_empty_log() -> None:
    assert decide("slow", None, batch(0, ping=(0, 5))) is Decision.APPEND


def test_the_next_batch_goes_on_where_the_last_one_ended() -> None:
    assert decide("slow", LAST, batch(5, ping=(12, 14), load=(3, 9))) is Decision.APPEND


def test_the_next_batch_may_bring_nothing_new() -> None:
    assert decide("slow", LAST, batch(5, ping=(12, 12), load=(3, 3))) is Decision.APPEND


def test_the_same_batch_again_is_skipped() -> None:
    assert decide("slow", LAST, batch(4, ping=(10, 12), load=(3, 3))) is Decision.SKIP


@pytest.mark.parametrize(
    ("last", "new", "error", "story"),
    [
        (LAST, batch(4, ping=(10, 13), load=(3, 3)), InvariantBroken, "again with different input"),
        (LAST, batch(4, ping=(10, 12)), InvariantBroken, "again with different input"),
        (LAST, batch(5, ping=(13, 14), load=(3, 3)), InvariantBroken, "does not begin where the last one ended"),
        (LAST, batch(5, ping=(11, 14), load=(3, 3)), InvariantBroken, "does not begin where the last one ended"),
        (LAST, batch(5, ping=(12, 11), load=(3, 3)), InvariantBroken, "does not begin where the last one ended"),
        (LAST, batch(5, ping=(12, 14)), InvariantBroken, "does not begin where the last one ended"),
        (LAST, batch(6, ping=(14, 15), load=(3, 3)), StateError, "older than the checkpoint"),
        (None, batch(3, ping=(4, 5)), StateError, "older than the checkpoint"),
        (LAST, batch(3, ping=(8, 10), load=(3, 3)), StateError, "the checkpoint is older than the log"),
        (LAST, batch(5, lineage="c2", ping=(12, 14), load=(3, 9)), StateError, "belongs to another log"),
        (LAST, batch(4, lineage="c2", ping=(10, 12), load=(3, 3)), StateError, "belongs to another log"),
    ],
)
def test_everything_else_stops_and_tells_why(
    last: Batch | None, new: Batch, error: type[AnabranchError], story: str
) -> None:
    with pytest.raises(error, match=story) as raised:
        decide("slow", last, new)
    assert f"batch {new.batch_id} of checkpoint {new.lineage}" in raised.value.message
    assert "'slow'" in raised.value.message
    assert raised.value.remedy


def test_the_message_shows_both_sides() -> None:
    with pytest.raises(InvariantBroken) as raised:
        decide("slow", LAST, batch(4, ping=(10, 13), load=(3, 3)))
    assert "load 3..3, ping 10..13" in raised.value.message
    assert "load 3..3, ping 10..12" in raised.value.message


def test_every_relation_has_a_verdict() -> None:
    assert set(VERDICTS) == set(Relation)
    assert relation(LAST, LAST) is Relation.REPEATED

"""The power goes at any moment, and every write that was not synced may be lost, kept or torn.

Then everything for which ``transaction()`` had returned is there, and of the transaction that was running all or
nothing. A test of this kind proves something only if it can fail: without syncs the same story finds loss.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from anabranch.storage import BatchRecord, Store
from anabranch.storage.transaction import Transaction
from tests.unit.storage.lossy_files import LossyBodies, LossyDisk, Photograph
from tests.unit.storage.stories import NOW, observe, rows, spec

TRANSACTIONS = 25
SEEDS = range(6)


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[LossyDisk]:
    disk = LossyDisk(f"lossy-{request.node.name}")
    yield disk
    disk.unregister()


def begin(path: Path, disk: LossyDisk, synchronous: str = "FULL", *, bodies_synced: bool = True) -> Store:
    """A store with two logs that was closed well and is opened on the lossy disk."""
    store = Store.open(path)
    store.create_log(spec("s"))
    store.create_log(spec("s.late"))
    with store.transaction() as transaction:
        transaction.add_reader("s", "spark", at_seq=0)
    store.close()
    return Store.open(
        path,
        connect=disk.connect(synchronous=synchronous),
        bodies=lambda store: LossyBodies(disk, store, synced=bodies_synced),
    )


def do_something(store: Store, transaction: Transaction, number: int, rng: random.Random) -> None:
    """One transaction of a node's life: rows for two logs, lane state, a batch, sometimes a trim."""
    padding = rng.choice([0, 100, 50_000])
    transaction.append("s", rows(range(rng.randint(1, 5)), padding=padding), {"s/0": number // 10}, now_us=NOW + number)
    if rng.random() < 0.3:
        transaction.append("s.late", rows([number]), {}, now_us=NOW + number)
    transaction.put("k", str(number).encode())
    transaction.record_batch(BatchRecord(lineage="a", batch_id=number, ranges="{}", watermark_us=number))
    if rng.random() < 0.4:
        transaction.acknowledge("s", "spark", rng.randint(0, store.log("s").end_seq()))
        transaction.trim("s", now_us=NOW)


Moment = tuple[Photograph, int]
"""What the disk held, and how many transactions had returned."""


def live(store: Store, disk: LossyDisk, rng: random.Random) -> tuple[list[dict[str, object]], list[Moment]]:
    """Run the story; photograph the disk between transactions and at random changes within them."""
    seen = [observe(store)]
    moments: list[Moment] = []

    def perhaps_photograph() -> None:
        if rng.random() < 0.1:
            moments.append((disk.photograph(), len(seen) - 1))

    disk.before_change = perhaps_photograph
    for number in range(TRANSACTIONS):
        with store.transaction() as transaction:
            do_something(store, transaction, number, rng)
        seen.append(observe(store))
        moments.append((disk.photograph(), len(seen) - 1))
    disk.before_change = lambda: None
    return seen, moments


def after_power_loss(
    photograph: Photograph, directory: Path, rng: random.Random, *, keep: float
) -> dict[str, object] | None:
    """What an ordinary store finds in one of the possible directories; None if it cannot use it at all."""
    photograph.develop(directory, rng, keep=keep)
    try:
        with closing(Store.open(directory / "s.db")) as store:
            return observe(store)
    except Exception:
        return None  # whatever it stumbled over: a caller that promised durability compares this with what it saw


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_committed_is_lost_and_nothing_is_half(
    path: Path, tmp_path: Path, disk: LossyDisk, seed: int
) -> None:
    rng = random.Random(seed)
    store = begin(path, disk)
    seen, moments = live(store, disk, rng)
    store.close()
    assert len(moments) > 2 * TRANSACTIONS  # some of them lie inside a transaction
    assert len({photograph.files["s.db"].durable for photograph, _ in moments}) > 3  # and some around checkpoints
    assert any(contents.unnamed for photograph, _ in moments for contents in photograph.files.values())
    for number, (photograph, returned) in enumerate(moments):
        found = after_power_loss(photograph, tmp_path / f"loss-{number}", rng, keep=rng.choice([0.0, 0.5, 0.9, 1.0]))
        assert found in seen[returned : returned + 2], f"moment {number}, after {returned} transactions"


@pytest.mark.parametrize(
    ("synchronous", "bodies_synced", "least"),
    [("OFF", True, TRANSACTIONS // 2), ("NORMAL", True, TRANSACTIONS // 2), ("FULL", False, 5)],
)
def test_the_same_story_finds_the_loss_when_something_is_not_synced(
    path: Path, tmp_path: Path, disk: LossyDisk, synchronous: str, bodies_synced: bool, least: int
) -> None:
    rng = random.Random(1)
    store = begin(path, disk, synchronous, bodies_synced=bodies_synced)
    seen, moments = live(store, disk, rng)
    store.close()
    lost = 0
    for number, (photograph, returned) in enumerate(moments):
        found = after_power_loss(photograph, tmp_path / f"loss-{number}", rng, keep=0.5)
        lost += found not in seen[returned : returned + 2]
    assert lost > least


class PowerFailure:
    """Lets so many changes pass; then every one fails until ``over`` is set."""

    def __init__(self, changes: int) -> None:
        self.left = changes
        self.over = False

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0 and not self.over:
            raise apsw.IOError("the disk does not answer")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disk_that_fails_inside_a_transaction_takes_only_that_transaction(
    path: Path, tmp_path: Path, disk: LossyDisk, seed: int
) -> None:
    rng = random.Random(seed)
    store = begin(path, disk)
    number = failures = 0
    while failures < 6:
        before = observe(store)
        failure = disk.before_change = PowerFailure(rng.randint(0, 30))
        try:
            while True:
                with store.transaction() as transaction:
                    do_something(store, transaction, number, random.Random(number))
                number += 1
                before = observe(store)
        except apsw.IOError:
            failures += 1
        failure.over = True
        now = observe(store)  # memory and disk agree, and the store goes on
        if now["k"] == str(number).encode():
            number += (
                1  # it was the checkpoint after the commit that failed: the binding tells, SQLite itself would not
            )
        else:
            assert now == before
        found = after_power_loss(disk.photograph(), tmp_path / f"loss-{failures}", rng, keep=rng.choice([0.0, 0.5]))
        assert found is not None
        if found["k"] != str(number).encode():  # unless a commit that failed in its sync reached the disk after all
            assert found == now
    store.close()

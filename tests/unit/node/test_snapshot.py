"""The state of a node at one moment, taken while it goes on: everything in it fits together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch import limits
from anabranch.errors import ConfigError, DiskFull, NodeUnreachable, StateError
from anabranch.storage.bodies import LARGE_BYTES
from anabranch.storage.store import Store
from tests.unit.node.replicas import LARGE, Replica, Upstream, numbers_in
from tests.waiting import wait_for


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def replica(tmp_path: Path, opened: ExitStack, **how: bool) -> Replica:
    upstream = Upstream(tmp_path / "u.db", ("a", "b"))
    opened.callback(upstream.close)
    made = Replica(tmp_path / "b", upstream, {"a": "127.0.0.1:1"})
    made.open(**how)
    opened.callback(made.close)
    return made


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())


def assert_fits_together(state: Path, names: tuple[str, ...] = ("totals", "sums")) -> int:
    """Returns how many rows have come through all stages."""
    with ExitStack() as opened:
        source = Store.open(state / "inlets" / "events.db")
        opened.callback(source.close)
        inputs = source.log("events")
        for name in names:
            store = Store.open(state / "stages" / f"{name}.db")
            opened.callback(store.close)
            (output,) = store.logs.values()
            last = store.last_batch()
            assert last is not None
            end = json.loads(last.ranges)[inputs.name][1]
            assert inputs.first_seq() - 1 <= end <= inputs.end_seq()
            assert output.last_id() == inputs.id_at(end)  # all rows of the last batch, and none of a later one
            assert numbers_in(output) == list(range(output.first_id(), output.last_id() + 1))
            checkpoint = state / "checkpoints" / name
            assert last.batch_id in numbers(checkpoint / "offsets")
            assert max(numbers(checkpoint / "commits"), default=-1) in (last.batch_id - 1, last.batch_id)
            assert last.batch_id in numbers(checkpoint / "state/0/0")
            assert json.loads((checkpoint / "metadata").read_text())["id"] == last.lineage
            inputs = output
        return inputs.last_id()


def test_snapshots_of_a_busy_node_fit_together(tmp_path: Path, opened: ExitStack) -> None:
    node = replica(tmp_path, opened, work=True)
    seen: list[int] = []
    for number in range(30):
        node.upstream.append(3)
        wait_for(lambda number=number: node.stages[0].output.last_id() >= 3 * number)  # type: ignore[misc]
        if number % 3 == 2:
            wait_for(lambda: node.output.last_id() > 0)
            node.snapshots.gather(tmp_path / "taken" / str(number))
            seen.append(assert_fits_together(tmp_path / "taken" / str(number)))
    assert seen == sorted(seen)
    assert node.journal.first_id() > 1  # and it was trimmed meanwhile
    wait_for(lambda: node.output.last_id() == 90)


def test_large_bodies_stay_in_a_snapshot_when_the_node_trims_them(tmp_path: Path, opened: ExitStack) -> None:
    node = replica(tmp_path, opened)
    node.upstream.append(LARGE)
    wait_for(lambda: node.journal.last_id() == LARGE)
    node.snapshots.gather(tmp_path / "taken")
    for _ in range(3):
        node.upstream.append(1)
        wait_for(lambda: node.journal.last_id() == node.upstream.log.last_id())
        node.run_batches()
    assert node.journal.first_id() > LARGE
    files = list((tmp_path / "taken/inlets/events.db-bodies").iterdir())
    assert files
    assert all(file.stat().st_size >= LARGE_BYTES for file in files)
    store = Store.open(tmp_path / "taken/inlets/events.db")
    opened.callback(store.close)
    assert numbers_in(store.log("events")) == list(range(1, LARGE + 1))


def test_what_was_gathered_is_removed_when_it_was_fetched(tmp_path: Path, opened: ExitStack) -> None:
    node = replica(tmp_path, opened)
    _, pieces = node.snapshots.snapshot("a")
    assert next(pieces).path == "checkpoints/sums/metadata"
    assert len(list(node.directory.lent.iterdir())) == 1
    assert len(list(pieces)) > 1
    assert list(node.directory.lent.iterdir()) == []


def test_what_nobody_fetches_is_removed_after_a_while(
    tmp_path: Path, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = replica(tmp_path, opened)
    _, pieces = node.snapshots.snapshot("a")
    next(pieces)
    node.snapshots.expire()
    assert len(list(node.directory.lent.iterdir())) == 1
    monkeypatch.setattr(limits, "SNAPSHOT_S", -1.0)
    _, others = node.snapshots.snapshot("a")  # it asks again: what was gathered first is of no use
    next(others)
    assert len(list(node.directory.lent.iterdir())) == 1
    node.snapshots.expire()
    assert list(node.directory.lent.iterdir()) == []
    for each in (pieces, others):
        with pytest.raises(NodeUnreachable, match="Fetch it again"):
            list(each)


def test_only_a_sibling_gets_a_snapshot_and_only_from_a_node_that_is_well(tmp_path: Path, opened: ExitStack) -> None:
    node = replica(tmp_path, opened)
    with pytest.raises(ConfigError, match=r"a different part of the query.*\n?.*: a"):
        node.snapshots.places("c")
    node.failing = StateError("It must be rebuilt itself.")
    with pytest.raises(NodeUnreachable, match="rebuilt itself"):
        node.snapshots.snapshot("a")


def test_a_node_without_room_says_so(tmp_path: Path, opened: ExitStack) -> None:
    node = replica(tmp_path, opened)
    node.snapshots._reserve_bytes = 1 << 60
    with pytest.raises(DiskFull, match="Free space"):
        list(node.snapshots.snapshot("a")[1])
    assert not node.directory.lent.exists()

"""Going back to the last logged batch, whatever a crash has left of the later ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine.checkpoint import check_state_is_shared, has_open_batch, location, make_durable, roll_back
from anabranch.errors import EngineError, StateError

OFFSETS = 'v1\n{"batchWatermarkMs":7}\n{"stream":"s","seq":3}'
COMMIT = 'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 2 are committed; batch 3 was begun."""
    directory = tmp_path / "checkpoint"
    for name, text, numbers in (("offsets", OFFSETS, range(4)), ("commits", COMMIT, range(3))):
        (directory / name).mkdir(parents=True)
        for number in numbers:
            (directory / name / str(number)).write_text(text)
            (directory / name / f".{number}.crc").write_bytes(b"crc")
    (directory / "metadata").write_text('{"id":"lineage"}')
    return directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_batch_that_was_not_logged_is_forgotten(checkpoint: Path) -> None:
    roll_back(checkpoint, 2)
    assert names(checkpoint / "offsets") == [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"]
    assert not has_open_batch(checkpoint)


def test_a_batch_that_was_logged_and_not_committed_stays(checkpoint: Path) -> None:
    roll_back(checkpoint, 3)
    assert "3" in names(checkpoint / "offsets")
    assert has_open_batch(checkpoint)


@pytest.mark.parametrize("text", ["", "v2", "v2\n", 'v2\n{"nextBatch', "\0" * 60])
def test_a_damaged_commit_is_dropped_and_the_batch_runs_again(checkpoint: Path, text: str) -> None:
    (checkpoint / "commits" / "2").write_text(text)
    roll_back(checkpoint, 2)
    assert names(checkpoint / "commits") == [".0.crc", ".1.crc", "0", "1"]


def test_a_whole_commit_stays_without_its_checksum(checkpoint: Path) -> None:
    (checkpoint / "commits" / ".2.crc").write_bytes(b"")
    roll_back(checkpoint, 2)
    assert names(checkpoint / "commits") == [".0.crc", ".1.crc", "0", "1", "2"]


def test_nothing_logged_is_a_new_beginning(checkpoint: Path) -> None:
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    (checkpoint / "metadata").write_text("")
    roll_back(checkpoint, None)
    assert not checkpoint.exists()


@pytest.mark.parametrize("logged", [None, 1])
def test_a_checkpoint_that_is_ahead_of_the_log_is_left_to_the_ledger(checkpoint: Path, logged: int | None) -> None:
    before = [names(checkpoint / name) for name in ("offsets", "commits")]
    roll_back(checkpoint, logged)
    assert [names(checkpoint / name) for name in ("offsets", "commits")] == before


def test_a_checkpoint_that_is_behind_the_log_is_refused(checkpoint: Path) -> None:
    with pytest.raises(StateError, match=r"older than the log") as told:
        roll_back(checkpoint, 5)
    assert "Restore" in told.value.remedy


def test_syncing_tells_when_it_cannot(tmp_path: Path) -> None:
    make_durable(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        make_durable(tmp_path / "nothing")


# --- executors on other machines -----------------------------------------------------------------------------------


def test_spark_looks_for_the_checkpoint_where_we_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert location(Path("state 1", "checkpoints")) == f"file:{tmp_path}/state 1/checkpoints"


def test_executors_that_write_elsewhere_are_found_out(checkpoint: Path) -> None:
    check_state_is_shared(checkpoint)  # a stage without state
    (checkpoint / "state" / "0" / "_metadata").mkdir(parents=True)
    (checkpoint / "state" / "0" / "_metadata" / "metadata").write_text("the node itself writes this")
    with pytest.raises(EngineError, match="wrote no state") as told:
        check_state_is_shared(checkpoint)
    assert "same path" in told.value.remedy
    (checkpoint / "state" / "0" / "1" / "left-keyToNumValues").mkdir(parents=True)
    (checkpoint / "state" / "0" / "1" / "left-keyToNumValues" / "1.changelog").write_text("")
    check_state_is_shared(checkpoint)

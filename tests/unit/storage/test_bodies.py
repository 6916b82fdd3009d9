"""Large bodies are files beside the store: there when it names them, gone when it does not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from anabranch.errors import DiskFull, StateError, StreamNotFound
from anabranch.storage import Store
from tests.unit.storage.stories import NOW, append, observe, rows, spec, values_in

LARGE = 1 << 20


@pytest.fixture
def bodies(path: Path) -> Path:
    return path.with_name("s.db-bodies")


def files(bodies: Path) -> int:
    return len(list(bodies.iterdir())) if bodies.exists() else 0


def test_only_large_bodies_are_files_and_all_read_back(path: Path, store: Store, bodies: Path) -> None:
    append(store, [0])
    assert files(bodies) == 0
    append(store, [1], padding=LARGE)
    append(store, [2])
    assert files(bodies) == 1
    assert path.stat().st_size + path.with_name("s.db-wal").stat().st_size < LARGE
    before = observe(store)
    store.close()
    again = Store.open(path)
    assert observe(again) == before
    again.close()


def test_a_trim_removes_the_files_of_what_it_deletes(store: Store, bodies: Path) -> None:
    append(store, [0, 1], padding=LARGE)
    append(store, [2], padding=LARGE, now_us=NOW + 10**10)
    assert files(bodies) == 2
    with store.transaction() as transaction:
        assert transaction.trim("s", now_us=NOW + 10**10) == 1
        assert files(bodies) == 2  # not before the commit
    assert files(bodies) == 1
    assert values_in(store.log("s")) == [2]


def test_the_files_of_a_transaction_that_failed_go_with_the_next_commit(store: Store, bodies: Path) -> None:
    append(store, [0], padding=LARGE)
    with suppress(ZeroDivisionError), store.transaction() as transaction:
        transaction.append("s", rows([1], padding=LARGE), {}, now_us=NOW)
        raise ZeroDivisionError
    assert files(bodies) == 2  # its commit might have reached the disk
    append(store, [1])
    assert files(bodies) == 1
    assert values_in(store.log("s")) == [0, 1]


def test_a_file_that_cannot_be_removed_fails_no_commit_and_is_tried_again(
    store: Store, bodies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, [0], padding=LARGE)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with store.transaction() as transaction:
            assert transaction.trim("s", now_us=NOW + 10**10) == 1
    assert (files(bodies), values_in(store.log("s"))) == (1, [])
    append(store, [1])
    assert (files(bodies), values_in(store.log("s"))) == (0, [1])


def test_names_that_cannot_be_synced_are_a_full_disk_and_nothing_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(DiskFull, match="No space left"):
            append(store, [0], padding=LARGE)
    append(store, [1], padding=LARGE)
    assert values_in(store.log("s")) == [1]


def test_what_nobody_names_is_swept_away_at_the_opening(path: Path, store: Store, bodies: Path) -> None:
    append(store, [0], padding=LARGE)
    store.close()
    (bodies / "leftover").write_bytes(b"of a crash")
    again = Store.open(path)
    assert files(bodies) == 1
    assert values_in(again.log("s")) == [0]
    again.close()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_file_that_is_not_whole_is_told_at_the_opening(path: Path, store: Store, bodies: Path, damage: str) -> None:
    append(store, [0], padding=LARGE)
    store.close()
    (body,) = bodies.iterdir()
    if damage == "missing":
        body.unlink()
    else:
        body.write_bytes(body.read_bytes()[:1000])
    with pytest.raises(StateError, match=r"s\.db-bodies.*Restore"):
        Store.open(path)


def test_a_reader_whose_segment_is_trimmed_meanwhile_is_told(store: Store) -> None:
    for value in range(20):
        append(store, [value], padding=LARGE)
    reading = store.log("s").read(0, 20)
    next(reading)
    with store.transaction() as transaction:
        transaction.trim("s", now_us=NOW + 10**10)
    with pytest.raises(StreamNotFound, match="does not hold segment"):
        list(reading)


def test_a_body_and_its_name_are_synced_before_the_commit(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, [0], padding=LARGE)
    events: list[str] = []

    def noting(name: str) -> None:
        sync = getattr(os, name)

        def note(descriptor: int) -> None:
            events.append(f"{name} {Path(f'/proc/self/fd/{descriptor}').readlink().parent.name}")
            sync(descriptor)

        monkeypatch.setattr(os, name, note)

    noting("fdatasync")
    noting("fsync")
    with store.transaction() as transaction:
        transaction.append("s", rows([1], padding=LARGE), {}, now_us=NOW)
        assert events == ["fdatasync s.db-bodies"]
        writer = store._writer

        class Watched:
            in_transaction = True

            def execute(self, sql: str, *parameters: object) -> object:
                if sql == "COMMIT":
                    events.append("commit")
                return writer.execute(sql, *parameters)  # type: ignore[arg-type]

        store._writer = Watched()  # type: ignore[assignment]
    store._writer = writer
    assert events == ["fdatasync s.db-bodies", f"fsync {path.parent.name}", "commit"]


def test_a_log_of_another_store_has_its_own_files(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        store = Store.open(tmp_path / name)
        store.create_log(spec())
        append(store, [1], padding=LARGE)
        store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "a.db-bodies", "b.db", "b.db-bodies"]

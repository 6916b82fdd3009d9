"""A file that is not ours, or not whole, is refused with a clear error, and no byte near it changes."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.storage import Store
from tests.unit.storage.stories import append, files_of, observe, spec, values_in


def refused(path: Path, message: str) -> None:
    before = files_of(path)
    with pytest.raises(StateError, match=message) as error:
        Store.open(path)
    assert path.name in error.value.message
    assert files_of(path) == before


@pytest.mark.parametrize("size", [0, 1, 99, 100, 5000])
def test_random_bytes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(random.Random(size).randbytes(size))
    refused(path, "is not a state file of Anabranch")


def test_a_database_of_another_application(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE logs (name TEXT)")
    connection.close()
    refused(path, "another application made it")


def test_a_store_of_another_version(path: Path, store: Store) -> None:
    store.close()
    contents = bytearray(path.read_bytes())
    contents[60:64] = struct.pack(">I", 99)
    path.write_bytes(contents)
    refused(path, "has format 99; this version of Anabranch reads format 6")


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "s.db").mkdir()
    with pytest.raises(StateError, match=r"s\.db cannot be used"):
        Store.open(tmp_path / "s.db")


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.99])
def test_a_store_that_was_cut_off(path: Path, inline: Store, kept: float) -> None:
    store = inline
    append(store, [1], padding=1 << 20)
    store.close()
    contents = path.read_bytes()
    path.write_bytes(contents[: int(len(contents) * kept)])
    refused(path, "cut off")


def test_a_store_that_was_cut_off_beside_its_write_ahead_log(path: Path, tmp_path: Path, inline: Store) -> None:
    store = inline
    append(store, [1], padding=20 << 20)  # enough to be checkpointed
    append(store, [2])  # and this is still only in the write-ahead log
    copy = tmp_path / "copy" / "s.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    whole = tmp_path / "whole"
    shutil.copytree(copy.parent, whole)
    with copy.open("r+b") as file:
        file.truncate(5 << 20)
    refused(copy, "cut off")
    intact = Store.open(whole / "s.db")  # the same files, whole, are fine
    assert values_in(intact.log("s")) == [1, 2]
    intact.close()


def test_a_write_ahead_log_without_its_file(path: Path, store: Store) -> None:
    store.close()
    path.rename(path.with_name("s.db-wal"))
    with pytest.raises(StateError, match="to which it belongs"):
        Store.open(path)
    assert not path.exists()


def test_damage_inside_the_file_is_told_and_not_hidden(path: Path, store: Store) -> None:
    append(store, [1], padding=1 << 20)
    store.close()
    contents = bytearray(path.read_bytes())
    contents[100 : 16 << 10] = b"\xff" * ((16 << 10) - 100)
    path.write_bytes(contents)
    with pytest.raises(StateError, match="cannot be used"):
        Store.open(path)


def test_a_store_whose_making_was_interrupted_is_made_anew(path: Path) -> None:
    path.parent.mkdir()
    for name in ("s.db.new", "s.db.new-wal"):
        (path.parent / name).write_bytes(b"half")
    store = Store.open(path)
    store.create_log(spec())
    assert observe(store)["k"] is None
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["s.db"]


def test_a_new_store_is_durable_before_it_has_its_name_and_so_is_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def note_sync(descriptor: int) -> None:
        events.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def note_rename(old: Path, new: Path) -> Path:
        events.append(f"rename {old.name} {new.name}")
        return rename(old, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    Store.open(path).close()
    made = path.parent.name
    assert events == [f"sync {path.parent.parent.name}", "sync s.db.new", "rename s.db.new s.db", f"sync {made}"]

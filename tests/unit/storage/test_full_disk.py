"""A full disk: the transaction is undone, nothing that was there is lost, and when there is room it simply goes on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.errors import DiskFull
from anabranch.storage import Connection, Store, connect_sqlite
from tests.unit.storage.stories import INLINE, append, observe, spec, values_in

MEGABYTE = 1 << 20


def fill(store: Store) -> int:
    """Append until the disk is full; the number of appends that were accepted."""
    for number in range(100):
        before = observe(store)
        try:
            append(store, [number], padding=MEGABYTE)
        except DiskFull as error:
            told = error
        else:
            continue
        assert str(store.path) in told.message
        assert "Free space" in told.remedy
        assert observe(store) == before
        return number
    raise AssertionError("the disk never became full")


def goes_on(store: Store, path: Path, accepted: int) -> None:
    append(store, [accepted], padding=MEGABYTE)
    expected = list(range(accepted + 1))
    assert values_in(store.log("s")) == expected
    before = observe(store)
    store.close()
    reopened = Store.open(path)
    assert observe(reopened) == before
    reopened.close()


def test_a_file_that_may_not_grow_is_a_full_disk(path: Path) -> None:
    opened: list[Connection] = []

    def connect(path: Path) -> Connection:
        opened.append(connect_sqlite(path))
        opened[-1].execute("PRAGMA max_page_count = 512").fetchall()
        return opened[-1]

    Store.open(path).close()
    store = Store.open(path, connect=connect, bodies=INLINE)
    store.create_log(spec())
    accepted = fill(store)
    assert accepted >= 5
    with pytest.raises(DiskFull):
        append(store, [accepted], padding=MEGABYTE)
    opened[0].execute("PRAGMA max_page_count = 100000").fetchall()
    goes_on(store, path, accepted)


def test_a_trim_makes_room_in_a_file_that_may_not_grow(path: Path) -> None:
    def connect(path: Path) -> Connection:
        connection = connect_sqlite(path)
        connection.execute("PRAGMA max_page_count = 512").fetchall()
        return connection

    store = Store.open(path, connect=connect, bodies=INLINE)
    store.create_log(spec())
    accepted = fill(store)
    with store.transaction() as transaction:
        assert transaction.trim("s", now_us=10**17) == accepted
    append(store, [accepted], padding=MEGABYTE)
    assert values_in(store.log("s")) == [accepted]
    store.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The operating system refuses to write beyond ``size``, in the write-ahead log as in the file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_writes_that_the_operating_system_refuses_are_a_full_disk(path: Path, inline: Store) -> None:
    with largest_file(8 * MEGABYTE):
        accepted = fill(inline)
        assert accepted >= 3
        assert values_in(inline.log("s")) == list(range(accepted))
    goes_on(inline, path, accepted)


def test_a_body_that_finds_no_room_is_a_full_disk_and_leaves_nothing(path: Path, store: Store) -> None:
    append(store, [0], padding=MEGABYTE)
    with largest_file(MEGABYTE // 2):
        assert fill(store) == 0
        append(store, [1])
    assert len(list(path.with_name("s.db-bodies").iterdir())) == 1
    with store.transaction() as transaction:
        transaction.trim("s", now_us=10**17)
    append(store, [2], padding=MEGABYTE)
    assert values_in(store.log("s")) == [2]


def test_a_store_that_cannot_be_made_for_want_of_room_leaves_no_file_of_its_name(path: Path) -> None:
    with largest_file(4096), pytest.raises(DiskFull):
        Store.open(path)
    assert not path.exists()
    Store.open(path).close()

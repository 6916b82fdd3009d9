"""Connections to SQLite: how one is opened, which errors it gives, and a pool of those that only read.

The rest of the package sees a connection through a small protocol, so that a test can put another binding (apsw, with a
file system that loses power) below the very same store. It must not know what is stored.

One connection writes and checkpoints; the pool's never do either. That is a rule, not only a habit: SQLite from 3.7.0
to 3.51.2 can damage a file when two connections write or checkpoint at the same instant (its "WAL-reset bug").
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from anabranch.errors import AnabranchError, DiskFull, Overloaded, StateError
from anabranch.limits import BUSY_TIMEOUT_MS

WAL_BYTES: Final = 64 << 20
"""Bytes of write-ahead log after which the writer waits for readers and starts it again from the front."""

CHECKPOINT_PAGES: Final = 1_000
"""Pages after which a commit also copies the write-ahead log into the file: 16 MB with pages of 16 KB."""

WRITER_CACHE_KIB: Final = 4 << 10
READER_CACHE_KIB: Final = 1 << 10
"""Page caches. Bodies are written once and read in order, so a larger cache only costs memory (measured: no gain)."""

IDLE_CONNECTIONS: Final = 4
"""Reading connections that are kept open between reads."""

Row = tuple[Any, ...]


class Cursor(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """What the store needs of a connection. ``execute`` outside of BEGIN … COMMIT commits by itself."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...
    def close(self) -> None: ...


Connect = Callable[[Path], Connection]


def connect_sqlite(path: Path) -> Connection:
    """The ordinary connection: the standard library's, with every commit synced."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    configure(connection)
    return connection


def configure(connection: Connection, *, synchronous: str = "FULL") -> None:
    """The settings that live as long as a connection does; those of the file are made with the file."""
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        f"synchronous = {synchronous}",
        f"cache_size = -{WRITER_CACHE_KIB}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_BYTES}",
        "secure_delete = OFF",  # on by default in Debian: a trim would overwrite all that it frees
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def one_row(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
    """The first row. All are fetched: a statement left halfway keeps its snapshot, and with it the write-ahead log."""
    rows = connection.execute(sql, parameters).fetchall()
    return tuple(rows[0]) if rows else None


@contextmanager
def told_apart(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, by who must act."""
    try:
        yield
    except sqlite3.Error as error:
        ours = _translate(error, path)
        if ours is None:
            raise
        raise ours from error


_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_UNUSABLE: Final = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
)
_UNREADABLE: Final = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)


def _translate(error: sqlite3.Error, path: Path) -> AnabranchError | None:
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return None
    primary = extended & 0xFF
    if extended in _UNREADABLE or primary in _UNUSABLE:
        return StateError(
            f"The state file {path} cannot be used: {error}.",
            remedy="Restore it from a backup, or remove it to start over without its contents.",
        )
    if primary in _FULL:
        return DiskFull(
            f"Cannot write to {path}: {error}. The transaction was rolled back.",
            remedy="Free space on that file system; no restart is needed.",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Overloaded(f"The state file {path} stayed locked for {BUSY_TIMEOUT_MS} ms: {error}.")
    return None


class ReaderPool:
    """Connections that only read, shared by any number of threads, each used by one at a time."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._idle: list[Connection] = []
        self._lent = 0
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Borrow a connection for a short while: what it reads is one snapshot only inside one statement."""
        with told_apart(self._path):
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Close all connections, after waiting for those that are lent."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._lent == 0, timeout=BUSY_TIMEOUT_MS / 1000)
            while self._idle:
                self._idle.pop().close()

    def _take(self) -> Connection:
        with self._changed:
            if self._closed:
                raise StateError(f"The store {self._path} is closed.")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect(self._path)
            for pragma in ("query_only = ON", "wal_autocheckpoint = 0", f"cache_size = -{READER_CACHE_KIB}"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            with self._changed:
                self._lent -= 1
                self._changed.notify_all()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            self._lent -= 1
            keep = not self._closed and len(self._idle) < IDLE_CONNECTIONS
            if keep:
                self._idle.append(connection)
            else:
                connection.close()
            self._changed.notify_all()

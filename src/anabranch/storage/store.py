"""A store: one SQLite file and its large bodies, its one writer, its readers, and the order of commit and notice.

Nothing is visible to a reader of this process, in memory or by notice, before COMMIT has returned, and COMMIT returns
after the write-ahead log is synced. Must not know what the logs are for.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from anabranch.errors import StateError, check
from anabranch.storage import codec, format
from anabranch.storage.bodies import Bodies
from anabranch.storage.connection import (
    WAL_BYTES,
    Connect,
    Connection,
    ReaderPool,
    connect_sqlite,
    one_row,
    told_apart,
)
from anabranch.storage.log import Log
from anabranch.storage.pinned import Pinned
from anabranch.storage.state import LogSpec, LogState, Mark, Published
from anabranch.storage.transaction import BatchRecord, Transaction

LOOK_BYTES: Final = WAL_BYTES // 8
"""The size of the write-ahead log is looked at when it may have grown by so much."""


class Store:
    """The logs, the small state and the batch ledger that share transactions."""

    def __init__(self, path: Path, connect: Connect, bodies: Bodies) -> None:
        """Use ``Store.open``."""
        self.path = path
        self._bodies = bodies
        self._leftover: list[str] = []
        """Files to remove after the next commit: those of transactions that failed, one of which a power failure may
        show until then, and those that could not be removed before."""
        self._writer = connect(path)
        self._readers = ReaderPool(path, connect)
        self._published = Published()
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._closed = False
        self._wal = format.wal_path(self.path)
        self._wal_bytes_allowed = WAL_BYTES
        self._logged_bytes = 0
        """What may have been added to the write-ahead log since its size was looked at."""
        self._stolen = False
        try:
            self._reload()
            self._bodies.sweep(_files(self._writer))
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, path: Path, *, connect: Connect = connect_sqlite, bodies: Callable[[Path], Bodies] = Bodies) -> Store:
        """Open the store at ``path``; make it when there is none. A file that is not a store stays untouched."""
        with told_apart(path):
            format.prepare(path, connect)
            return cls(path, connect, bodies(path))

    @property
    def logs(self) -> dict[str, Log]:
        return {name: self._log(name) for name in self._published.states()}

    def log(self, name: str) -> Log:
        self._published.state(name)
        return self._log(name)

    def create_log(self, spec: LogSpec) -> Log:
        """The log of this name, made when absent. One that exists with other columns or origins is refused."""
        with self.transaction() as transaction:
            transaction.create_log(spec)
        return self.log(spec.name)

    def get(self, key: str) -> bytes | None:
        """The committed value of ``key``."""
        with self._readers.connection() as connection:
            row = one_row(connection, "SELECT value FROM state WHERE key = ?", (key,))
        return bytes(row[0]) if row else None

    def sizes(self, prefix: str) -> dict[str, int]:
        """The keys that begin like this, in order, with the bytes of their committed values."""
        with self._readers.connection() as connection:
            rows = connection.execute(
                "SELECT key, length(value) FROM state WHERE key >= ? AND key < ? ORDER BY key",
                (prefix, prefix + "\U0010ffff"),
            ).fetchall()
        return {row[0]: row[1] for row in rows}

    def last_batch(self) -> BatchRecord | None:
        """The batch that was logged last."""
        with self._readers.connection() as connection:
            row = one_row(
                connection,
                "SELECT lineage, batch_id, ranges, watermark_us FROM batches ORDER BY number DESC LIMIT 1",
            )
        if row is None:
            return None
        return BatchRecord(lineage=row[0], batch_id=row[1], ranges=row[2], watermark_us=row[3])

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All or nothing: commits when the block ends, undoes everything when it raises. One at a time."""
        check(self._owner != threading.get_ident(), "A transaction was begun inside another one of the same store.")
        with self._lock:
            self._owner = threading.get_ident()
            transaction = Transaction(self._writer, self._bodies, self._published.states())
            try:
                self._begin()
                yield transaction
                states = transaction.finish()
                self._writer.execute("COMMIT")
                wal_bytes = self._wal_bytes_after(transaction)
                self._published.publish(states)
            except BaseException:
                self._leftover += transaction.written
                with told_apart(self.path):
                    self._undo()
                    raise
            finally:
                self._owner = None
            if transaction.doomed or self._leftover:
                self._leftover = self._bodies.remove([*transaction.doomed, *self._leftover])
            if wal_bytes > self._wal_bytes_allowed:
                self._bound_wal()

    @contextmanager
    def pinned(self) -> Iterator[Pinned]:
        """The store as it is now. Inside a transaction of this thread: as it was before it."""
        with self._readers.connection() as connection:
            connection.execute("BEGIN").fetchall()
            try:
                yield Pinned(connection, self._bodies, _files(connection))
            finally:
                connection.execute("ROLLBACK").fetchall()

    def close(self) -> None:
        """Wait for the running transaction and reads, and close. Waiters return at once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._published.close()
            self._readers.close()
            self._writer.close()  # last, so that it is the writer that empties the write-ahead log

    def _log(self, name: str) -> Log:
        return Log(name, self._published, self._readers, self._bodies)

    def _begin(self) -> None:
        if self._closed:
            raise StateError(f"The store {self.path} is closed.")
        self._writer.execute("BEGIN IMMEDIATE")
        self._stolen = self._stolen or self._version_now() != self._version
        if self._stolen:
            raise StateError(
                f"Another process has written to {self.path}.", remedy="Run only one node on a state directory."
            )

    def _undo(self) -> None:
        """Roll back, and let memory take what the file says: on some errors SQLite has ended the transaction itself."""
        if self._closed:
            return
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK").fetchall()
        self._reload()

    def _reload(self) -> None:
        self._published.publish(_load(self._writer))
        self._version = self._version_now()

    def _version_now(self) -> int:
        """A number that changes when another connection commits, which must not be, or when SQLite met an I/O error."""
        row = one_row(self._writer, "PRAGMA data_version")
        return int(row[0]) if row else 0

    def _bound_wal(self) -> None:
        """Readers that always overlap keep SQLite from starting its write-ahead log again; then wait for them once.

        The commit is done: if this fails for want of room, the next commit tries again.
        """
        with told_apart(self.path), suppress(sqlite3.OperationalError):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._wal_bytes_allowed = self._wal_bytes() + WAL_BYTES

    def _wal_bytes_after(self, transaction: Transaction) -> int:
        """0 while it cannot have grown enough to matter. Looked at before others wake up: whoever calls the system lets
        them run first."""
        self._logged_bytes += transaction.logged_bytes
        if self._logged_bytes < LOOK_BYTES:
            return 0
        self._logged_bytes = 0
        return self._wal_bytes()

    def _wal_bytes(self) -> int:
        """0 where that cannot be told: what was committed has not failed for this."""
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0


def _files(connection: Connection) -> dict[str, int]:
    """The files that the store names, with their sizes."""
    rows = connection.execute("SELECT file, file_bytes FROM segments WHERE file IS NOT NULL").fetchall()
    return {row[0]: row[1] for row in rows}


def _load(connection: Connection) -> dict[str, LogState]:
    """What the file says of each log."""
    columns = (
        "log, name, kind, incarnation, schema, origins, retention_us, limit_bytes, "
        "trimmed_seq, trimmed_id, trimmed_bytes, trimmed_punctuations, trimmed_tops"
    )
    rows = connection.execute(f"SELECT {columns} FROM logs ORDER BY log").fetchall()
    return {row[1]: _load_log(connection, tuple(row)) for row in rows}


def _load_log(connection: Connection, row: tuple[Any, ...]) -> LogState:
    number, name, kind, incarnation, schema, origins, retention_us, limit_bytes, *trimmed_columns = row
    spec = LogSpec(
        name=name,
        schema=codec.decode_schema(schema),
        origins=tuple(json.loads(origins)),
        kind=kind,
        retention_us=retention_us,
        limit_bytes=limit_bytes,
    )
    trimmed = Mark(*trimmed_columns[:3])
    trimmed_punctuations = codec.decode_punctuations(trimmed_columns[3], spec.origins)
    last = one_row(
        connection,
        "SELECT seq, last_id, end_bytes, punctuations FROM segments WHERE log = ? ORDER BY seq DESC LIMIT 1",
        (number,),
    )
    readers = connection.execute("SELECT name, seq, cut_off_us FROM readers WHERE log = ?", (number,)).fetchall()
    return LogState(
        number=number,
        spec=spec,
        incarnation=incarnation,
        end=Mark(*last[:3]) if last else trimmed,
        trimmed=trimmed,
        punctuations=codec.decode_punctuations(last[3], spec.origins) if last else trimmed_punctuations,
        trimmed_punctuations=trimmed_punctuations,
        trimmed_tops=codec.decode_punctuations(trimmed_columns[4], spec.origins),
        readers={reader: seq for reader, seq, cut_off_us in readers if cut_off_us is None},
        cut_off=frozenset(reader for reader, _, cut_off_us in readers if cut_off_us is not None),
        stored_schema=codec.stored_schema(spec.schema),
        codes={origin: code for code, origin in enumerate(spec.origins)},
    )

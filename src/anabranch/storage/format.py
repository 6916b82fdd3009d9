"""The file of a store: its tables, how it is made, and how one that is not ours or not whole is recognised.

A file is looked at before SQLite opens it, because opening already may write: a foreign or cut-off file stays as it is.
A new file is made under another name and renamed, so that under its own name there is never a half-made one.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from anabranch.errors import StateError
from anabranch.storage.connection import Connect, one_row
from anabranch.syncing import sync

APPLICATION_ID: Final = 0x414E4142  # "ANAB"
FORMAT: Final = 6
PAGE_BYTES: Final = 16 << 10

SCHEMA: Final = (
    """CREATE TABLE logs (
        log INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        incarnation TEXT NOT NULL,
        schema BLOB NOT NULL,
        origins TEXT NOT NULL,
        retention_us INTEGER NOT NULL,
        limit_bytes INTEGER NOT NULL,
        trimmed_seq INTEGER NOT NULL DEFAULT 0,
        trimmed_id INTEGER NOT NULL DEFAULT 0,
        trimmed_bytes INTEGER NOT NULL DEFAULT 0,
        trimmed_punctuations BLOB NOT NULL DEFAULT x'',
        trimmed_tops BLOB NOT NULL DEFAULT x'')""",
    # last_id and end_bytes count from the beginning of the log, so what lies between two segments is a difference.
    # tops are the largest times of each origin among the rows: what is trimmed unread leaves floors above them. A log
    # has those of everything that went.
    # The large columns come last: reading the others does not touch the pages that hold them. The largest bodies are
    # in files of their own.
    """CREATE TABLE segments (
        log INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        last_id INTEGER NOT NULL,
        end_bytes INTEGER NOT NULL,
        appended_us INTEGER NOT NULL,
        punctuations BLOB NOT NULL,
        tops BLOB NOT NULL,
        file TEXT,
        file_bytes INTEGER,
        body BLOB,
        PRIMARY KEY (log, seq))""",
    "CREATE INDEX segments_by_id ON segments (log, last_id, seq)",
    """CREATE TABLE readers (
        log INTEGER NOT NULL,
        name TEXT NOT NULL,
        seq INTEGER NOT NULL,
        cut_off_us INTEGER,
        PRIMARY KEY (log, name)) WITHOUT ROWID""",
    "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE batches (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        lineage TEXT NOT NULL,
        batch_id INTEGER NOT NULL,
        ranges TEXT NOT NULL,
        watermark_us INTEGER NOT NULL)""",
)

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_WAL_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24


def prepare(path: Path, connect: Connect) -> None:
    """Make the file if there is none; otherwise make sure, without writing, that it is a whole store of ours."""
    try:
        if path.exists():
            _inspect(path)
        else:
            _create(path, connect)
    except OSError as error:
        raise StateError(
            f"The state file {path} cannot be used: {error.strerror or error}.",
            remedy="Check that the directory exists, and that this user can read and write it.",
        ) from error


def wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _create(path: Path, connect: Connect) -> None:
    if wal_path(path).exists():
        raise StateError(
            f"{wal_path(path)} exists, but {path.name}, to which it belongs, does not.",
            remedy="Put both files back together, or remove the one that is left.",
        )
    _make_directory(path.parent)
    new = path.with_name(path.name + ".new")
    for leftover in (new, *(new.with_name(new.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        leftover.unlink(missing_ok=True)
    _fill(new, connect)
    sync(new)
    new.rename(path)
    sync(path.parent)


def _fill(path: Path, connect: Connect) -> None:
    connection = connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}").fetchall()
        mode = one_row(connection, "PRAGMA journal_mode = WAL")
        if mode != ("wal",):
            raise StateError(
                f"The file system of {path} cannot hold a write-ahead log.", remedy="Use a local file system."
            )
        connection.execute("BEGIN IMMEDIATE").fetchall()
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
        connection.execute(f"PRAGMA user_version = {FORMAT}").fetchall()
        for statement in SCHEMA:
            connection.execute(statement).fetchall()
        connection.execute("COMMIT").fetchall()
    finally:
        connection.close()  # the last one to close moves everything from the write-ahead log into the file


def _make_directory(path: Path) -> None:
    """Like ``mkdir -p``, and each new entry is durable in its parent."""
    if not path.is_dir():
        _make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def _inspect(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise _not_ours(path, "it is not a SQLite file, or it was cut off")
    (page_bytes,) = struct.unpack_from(">H", header, 16)
    (pages,) = struct.unpack_from(">I", header, 28)
    version, application = struct.unpack_from(">I", header, 60)[0], struct.unpack_from(">I", header, 68)[0]
    if application != APPLICATION_ID:
        raise _not_ours(path, "another application made it")
    if version != FORMAT:
        raise StateError(
            f"The state file {path} has format {version}; this version of Anabranch reads format {FORMAT}.",
            remedy="Use the version that wrote it.",
        )
    _check_whole(path, page_bytes=65_536 if page_bytes == 1 else page_bytes, pages=pages)


def _not_ours(path: Path, reason: str) -> StateError:
    return StateError(
        f"{path} is not a state file of Anabranch: {reason}. It was left unchanged.",
        remedy="Choose another state directory, or restore this file from a backup.",
    )


def _check_whole(path: Path, *, page_bytes: int, pages: int) -> None:
    """Every page must be in the file or, where a checkpoint was interrupted, in the write-ahead log."""
    waiting, pages_after = _pages_in_wal(wal_path(path), page_bytes)
    held = path.stat().st_size // page_bytes
    missing = [page for page in range(held + 1, (pages_after or pages) + 1) if page not in waiting]
    if missing:
        raise StateError(
            f"The state file {path} was cut off: it has {held} whole pages of {pages_after or pages}. "
            "It was left unchanged.",
            remedy="Restore it from a backup.",
        )


def _pages_in_wal(path: Path, page_bytes: int) -> tuple[set[int], int]:
    """The pages that frames of the present generation hold, and the pages of the file after the last commit (or 0)."""
    waiting: set[int] = set()
    pages_after = 0
    if not path.exists():
        return waiting, pages_after
    with path.open("rb") as file:
        salts = file.read(_WAL_HEADER_BYTES)[16:24]
        while len(frame := file.read(_FRAME_HEADER_BYTES)) == _FRAME_HEADER_BYTES and frame[8:16] == salts:
            page, commit_pages = struct.unpack_from(">II", frame)
            waiting.add(page)
            pages_after = commit_pages or pages_after
            file.seek(page_bytes, os.SEEK_CUR)
    return waiting, pages_after

"""Tuples into files: one file of JSON lines that grows, or a directory of Parquet files.

Both can say by themselves how far they go. The last line of a JSON file holds the last id; a line that was cut by a
crash is cut off. A Parquet file is named after the ids in it and gets its name only when it is whole and synced.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.connectors.json_text import json_lines
from anabranch.connectors.writer import Found
from anabranch.errors import StateError
from anabranch.model.header import ID, ORIGIN, STIME, TID
from anabranch.model.times import from_datetime
from anabranch.query.connectors import JsonLinesWriter, ParquetWriter
from anabranch.syncing import sync

LINE_ROWS: Final = 65_536
"""Tuples between two syncs of a JSON file."""

_BACK_BYTES: Final = 64 << 10
_BEGIN: Final = b'{"_id": '
"""How every line begins; a file that was cut by a crash ends with a part of it, or of what follows it."""
_NAME: Final = re.compile(r"(\d{19})-(\d{19})\.parquet")
_UNFINISHED: Final = ".writing-"
_STREAM: Final = b"anabranch.stream"
_INCARNATION: Final = b"anabranch.incarnation"


class JsonLinesFile:
    """One file of JSON lines."""

    durable = True
    rows = LINE_ROWS
    every_us = 0

    def __init__(self, writer: JsonLinesWriter) -> None:
        self._path = Path(writer.path)
        self._file: BinaryIO | None = None

    def recover(self) -> Found:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self._path.exists()
        file = self._file = self._path.open("a+b", buffering=0)
        if is_new:
            sync(self._path.parent)
        _lock(file, self._path)
        end = _end_of_lines(file)
        found = self._found(_last_line(file, end)) if end else Found()
        file.seek(end)
        begun = file.read(len(_BEGIN))
        if not _BEGIN.startswith(begun):
            raise self._foreign(f"it ends with {begun!r}...")
        if begun:
            file.truncate(end)
        return found

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        assert self._file is not None
        for batch in batches:
            left = memoryview(json_lines(batch))
            while left:
                left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _found(self, line: bytes) -> Found:
        try:
            last = json.loads(line)
            moment = from_datetime(datetime.fromisoformat(last[STIME]))
            return Found(last_id=int(last[ID]), identity=(int(last[TID]), moment, str(last[ORIGIN])))
        except (ValueError, TypeError, KeyError) as error:
            raise self._foreign(f"its last line is not a tuple ({error!r})") from error

    def _foreign(self, why: str) -> StateError:
        return StateError(
            f"{self._path} was not written by Anabranch: {why}.", remedy="Give another file; this one was not touched."
        )


class ParquetFiles:
    """A directory of Parquet files."""

    durable = True

    def __init__(self, writer: ParquetWriter, *, stream: str, incarnation: str) -> None:
        self.rows = writer.rows
        self.every_us = writer.every_us
        self._path = Path(writer.path)
        self._marks = {_STREAM: stream.encode(), _INCARNATION: incarnation.encode()}

    def recover(self) -> Found:
        self._path.mkdir(parents=True, exist_ok=True)
        for left in self._path.glob(f"{_UNFINISHED}*"):
            left.unlink()
        names = sorted(path.name for path in self._path.iterdir() if _NAME.fullmatch(path.name))
        if not names:
            return Found()
        last = self._path / names[-1]
        try:
            marks = pq.read_schema(last).metadata or {}
        except pa.ArrowException as error:
            raise StateError(f"{last} cannot be read: {error}.", remedy="Restore it, or remove it.") from error
        match = _NAME.fullmatch(last.name)
        assert match is not None
        return Found(last_id=int(match[2]), incarnation=marks.get(_INCARNATION, b"").decode())

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """One file of all the batches; each is a row group, so that one is in memory at a time."""
        first_id = last_id = 0
        unfinished = self._path / f"{_UNFINISHED}{os.getpid()}"
        writer: pq.ParquetWriter | None = None
        with unfinished.open("wb") as file:
            for batch in batches:
                ids = batch.column(ID)
                first_id = first_id or ids[0].as_py()
                last_id = ids[-1].as_py()
                writer = writer or pq.ParquetWriter(file, batch.schema.with_metadata(self._marks))
                writer.write_batch(batch.replace_schema_metadata(self._marks))
            if writer is None:
                return
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._path / f"{first_id:019d}-{last_id:019d}.parquet")
        sync(self._path)

    def close(self) -> None:
        """Nothing is open between two files."""


def _end_of_lines(file: BinaryIO) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BACK_BYTES)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _last_line(file: BinaryIO, end: int) -> bytes:
    """The line that ends at ``end``."""
    line = b""
    at = end - 1
    while at > 0:
        start = max(0, at - _BACK_BYTES)
        file.seek(start)
        part = file.read(at - start)
        newline = part.rfind(b"\n")
        line = part[newline + 1 :] + line
        if newline >= 0:
            break
        at = start
    return line


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StateError(f"Another process is writing to {path}.", remedy="Give each writer its own file.") from error

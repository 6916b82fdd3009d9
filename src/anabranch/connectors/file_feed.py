"""The rows of files in order: row n of the feed is the n-th row of all files, read one after the other.

CSV with a header, JSON lines, Parquet. Files come in the order of their names. What lies before the row to begin with
is counted and not converted: row groups of Parquet by their metadata, text in whole chunks. With a speed, a row is due
when as much time has passed since the first one as lies between their times, divided by the speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.connectors.feed import COALESCE_US, Over, Rows, Taken, Wait
from anabranch.errors import ConfigError, PushRefused
from anabranch.model.times import SECOND
from anabranch.query.connectors import FileFeed
from anabranch.transport import rows as text_rows

LOOK_S: Final = 1.0
"""How often a feed that waits for more looks at its files."""

BATCH_ROWS: Final = 16_384

_SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of a file; ``first`` is the index of the first one in it."""

    batch: pa.RecordBatch
    path: Path
    first: int

    def place(self, index: int) -> str:
        return f"{self.path}, row {self.first + index + 1}"

    def after(self, count: int) -> _Piece:
        return _Piece(self.batch.slice(count), self.path, self.first + count)


class FileRows:
    """The rows of one file feed."""

    def __init__(self, feed: FileFeed, schema: pa.Schema, time: str | None) -> None:
        self._feed = feed
        self._schema = schema
        self._time = next((f.name for f in schema if time is not None and f.name.lower() == time.lower()), None)
        self._waits = feed.then == "wait"
        self._taken = 0
        self._pieces: Iterator[_Piece] = iter(())
        self._piece: _Piece | None = None
        self._seen: list[tuple[str, int, int]] = []
        self._place = "the beginning"
        self._base: tuple[int, int] | None = None
        self._due: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        for path in self._files():
            self._format(path)

    def begin(self, number: int, now_us: int) -> None:
        self._taken = number - 1
        self._piece, self._due, self._base = None, np.zeros(0, dtype=np.int64), None
        self._open()

    def take(self, now_us: int) -> Taken:
        if self._piece is None and not self._next_piece(now_us):
            if not self._waits:
                return Over(close=True)
            if self._seen == self._signature():
                return Wait(LOOK_S)
            self._open()
            return Wait(0)
        assert self._piece is not None
        piece = self._piece
        count = int(np.searchsorted(self._due, now_us, side="right"))
        if count == 0:
            return Wait(max(float(self._due[0] - now_us), COALESCE_US) / SECOND)
        self._place = piece.place(count - 1)
        self._taken += count
        self._piece = piece.after(count) if count < piece.batch.num_rows else None
        self._due = self._due[count:]
        return Rows(piece.batch.slice(0, count), piece.place)

    def position(self) -> str:
        return self._place

    def lag_us(self, now_us: int) -> int:
        return max(0, now_us - int(self._due[0])) if len(self._due) and self._feed.speed is not None else 0

    # --- pace ------------------------------------------------------------------------------------------------------

    def _next_piece(self, now_us: int) -> bool:
        self._piece = next(self._pieces, None)
        if self._piece is not None:
            self._due = self._due_times(self._piece.batch, now_us)
        return self._piece is not None

    def _due_times(self, batch: pa.RecordBatch, now_us: int) -> npt.NDArray[np.int64]:
        """When each row is due; never before the one ahead of it. A row without a time is due at once: it is bad."""
        if self._feed.speed is None or self._time is None:
            return np.zeros(batch.num_rows, dtype=np.int64)
        column = batch.column(self._time).cast(pa.int64())
        times = column.fill_null(0).to_numpy(zero_copy_only=False)
        if self._base is None:
            self._base = (int(times[0]), now_us)
        first_us, began_us = self._base
        due = began_us + ((times - first_us) / self._feed.speed).astype(np.int64)
        return np.maximum.accumulate(due)

    # --- files -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._seen = self._signature()
        self._pieces = self._read(self._taken)

    def _files(self) -> list[Path]:
        path = Path(self._feed.path)
        if any(character in self._feed.path for character in "*?[") and not path.exists():
            anchor = Path(path.anchor)
            found = list(anchor.glob(str(path.relative_to(anchor))))
        elif path.is_dir():
            known = (each for each in path.iterdir() if self._feed.format or each.suffix.lower() in _SUFFIXES)
            found = [each for each in known if not each.name.startswith((".", "_"))]
        else:
            found = [path]
        files = sorted(each for each in found if each.is_file())
        if not files and not self._waits:
            raise ConfigError(
                f"{self._feed.path}: there is no such file.", remedy="Check the path; then=wait waits until there is."
            )
        return files

    def _signature(self) -> list[tuple[str, int, int]]:
        """What changes when there may be more to read."""
        facts = [(str(path), path.stat()) for path in self._files()]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in facts]

    def _format(self, path: Path) -> str:
        form = self._feed.format or _SUFFIXES.get(path.suffix.lower())
        if form is None:
            raise ConfigError(
                f"Cannot tell the row format from the name of {path}.",
                remedy="Give format=csv, jsonl or parquet.",
            )
        return form

    def _read(self, skip: int) -> Iterator[_Piece]:
        """The rows of all files but the first ``skip``."""
        for path in self._files():
            form = self._format(path)
            count = 0
            try:
                for piece in self._parquet(path, skip) if form == "parquet" else self._text(path, form, skip):
                    if isinstance(piece, int):
                        count += piece
                        continue
                    count += piece.batch.num_rows
                    yield piece
            except PushRefused as error:
                raise PushRefused(f"{path}: {error.message}", row=error.row, remedy=error.remedy) from error
            except (OSError, pa.ArrowException) as error:
                raise ConfigError(
                    f"{path} cannot be read: {error}.", remedy="Repair the file, or remove it."
                ) from error
            skip = max(0, skip - count)
        if skip and not self._waits:
            raise ConfigError(
                f"{self._feed.path} has {skip:,} fewer rows than were already read from it.",
                remedy="A feed continues in the same files: restore them, or use a new state directory.",
            )

    def _text(self, path: Path, form: str, skip: int) -> Iterator[_Piece | int]:
        """Pieces of a text file, and for a chunk that is skipped the number of its rows."""
        names: list[str] | None = None
        first = 0
        quoted = form == "csv"
        with path.open("rb") as file:
            for chunk in text_rows.whole_rows(file, quoted=quoted):
                if self._waits and not chunk.endswith(b"\n"):
                    return  # someone is still writing this row
                if quoted and names is None:
                    names, chunk = text_rows.csv_header(chunk)
                count = text_rows.count_rows(chunk, "csv" if quoted else "json", names)
                if first + count <= skip:
                    yield count
                else:
                    yield from self._converted(path, chunk, quoted, names, first, skip)
                first += count

    def _converted(
        self, path: Path, chunk: bytes, quoted: bool, names: list[str] | None, first: int, skip: int
    ) -> Iterator[_Piece | int]:
        if quoted:
            batch = text_rows.from_csv(chunk, self._schema, names=names, first_row=first)
        else:
            batch = text_rows.from_json_lines(chunk, self._schema, first_row=first)
        passed = max(0, skip - first)
        yield passed
        yield from self._split(path, batch.slice(passed), first + passed)

    def _parquet(self, path: Path, skip: int) -> Iterator[_Piece | int]:
        """Row groups that are skipped are not read."""
        with pq.ParquetFile(path) as file:
            first = 0
            for group in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if first + count <= skip:
                    yield count
                    first += count
                    continue
                for read in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
                    passed = min(read.num_rows, max(0, skip - first))
                    yield passed
                    batch = text_rows.conform(read.slice(passed), self._schema, first_row=first + passed)
                    yield from self._split(path, batch, first + passed)
                    first += read.num_rows

    def _split(self, path: Path, batch: pa.RecordBatch, first: int) -> Iterator[_Piece]:
        """In pieces that each fit into one push."""
        for piece in text_rows.split(batch, max_rows=BATCH_ROWS, first_row=first):
            if piece.num_rows:
                yield _Piece(piece, path, first)
            first += piece.num_rows

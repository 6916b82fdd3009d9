"""Spark's checkpoint directory: what it tells about a run, and how it outlives a power failure.

``metadata`` holds the query id, which stays for the life of the checkpoint: that is the lineage. ``offsets/N`` is
written before batch N runs; its lines are a version, a JSON object with the watermark, and one offset per source.
``commits/N`` is written when batch N is in the log.

Spark never asks the disk to keep what it writes. So the checkpoint is synced before each batch is logged: a logged
batch has its offsets, its state and the commit of the batch before, whatever happens. Of what came later after the last
sync a power failure may leave nothing, or empty files; ``roll_back`` removes it before the next start.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.errors import EngineError, StateError, check
from anabranch.model.times import MS

_syncfs: Final = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
"""Only Linux can sync one file system; elsewhere all are synced."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The end of a batch: the last segment of each stream, and the watermark that it runs with."""

    ends: Mapping[str, int]
    watermark_us: int


def location(checkpoint: Path) -> str:
    """The directory as Spark must be told it: without a scheme a cluster would look into its own file system."""
    return f"file:{checkpoint.absolute()}"


def check_state_is_shared(checkpoint: Path) -> None:
    """Executors write their state under the same path. On other machines that can be another directory.

    Nothing would fail until a partition moves to an executor that does not have its state, perhaps after weeks.
    """
    operators = checkpoint / "state"
    if operators.exists() and not any(path.is_file() for path in operators.glob("[0-9]*/[0-9]*/**/*")):
        raise EngineError(
            f"The executors wrote no state to {operators}: on their machines that path is another directory.",
            remedy="Put the state directory on storage that all machines of the cluster mount at the same path.",
        )


def lineage(checkpoint: Path) -> str:
    """The id that Spark gave this checkpoint when it was created."""
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError) as error:
        raise StateError(
            f"Spark's checkpoint file {path} cannot be read: {error}.",
            remedy="Restore the state directory from a backup.",
        ) from error


def batch_offsets(checkpoint: Path, batch_id: int) -> BatchOffsets:
    path = checkpoint / "offsets" / str(batch_id)
    try:
        _, metadata, *offsets = path.read_text().splitlines()
        watermark_us = int(json.loads(metadata)["batchWatermarkMs"]) * MS
        scans = [_offset(line) for line in offsets if line != "-"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"Spark's offset file {path} cannot be read: {error}.",
            remedy="Restore the state directory from a backup.",
        ) from error
    ends = dict(scans)
    check(len(set(scans)) == len(ends), f"Scans of one stream end at different segments in batch {batch_id}: {scans}.")
    return BatchOffsets(ends, watermark_us)


def has_open_batch(checkpoint: Path) -> bool:
    """Whether Spark has begun a batch that it has not committed."""
    begun, committed = (_numbers(checkpoint / name) for name in ("offsets", "commits"))
    return max(begun, default=-1) > max(committed, default=-1)


def make_durable(checkpoint: Path) -> None:
    """Returns when all that was written to the file system of the checkpoint is on the disk."""
    directory = os.open(checkpoint, os.O_RDONLY)
    try:
        if _syncfs is None:
            os.sync()
        elif _syncfs(directory) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(checkpoint))
    finally:
        os.close(directory)


def roll_back(checkpoint: Path, logged: int | None) -> None:
    """Goes back to the last batch in the log: what Spark wrote after it was never seen, and may be damaged.

    The commit of that batch itself may be damaged too. Without it Spark runs the batch again, and the log knows it.
    """
    committed = _numbers(checkpoint / "commits")
    last = -1 if logged is None else logged
    if max(committed, default=-1) > last:
        return  # no crash makes this: the log was replaced, and will say so when it meets the next batch
    if logged is None:
        shutil.rmtree(checkpoint, ignore_errors=True)
        return
    begun = _numbers(checkpoint / "offsets")
    if last not in begun:
        raise StateError(
            f"Spark's checkpoint {checkpoint} is older than the log, which holds batch {last}.",
            remedy="Restore the whole state directory from one backup, or start with an empty one.",
        )
    for number in begun:
        if number > last:
            _remove(checkpoint / "offsets" / str(number))
    commit = checkpoint / "commits" / str(last)
    if commit.exists() and not _is_whole(commit):
        _remove(commit)
    _checksum(commit).unlink(missing_ok=True)  # written after the commit, perhaps not whole; Spark does without


def _is_whole(commit: Path) -> bool:
    try:
        _, metadata = commit.read_text().splitlines()
        return isinstance(json.loads(metadata), dict)
    except ValueError:
        return False


def _remove(path: Path) -> None:
    path.unlink()
    _checksum(path).unlink(missing_ok=True)


def _checksum(path: Path) -> Path:
    """The file in which Hadoop keeps the checksum of another."""
    return path.with_name(f".{path.name}.crc")


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in directory.glob("*") if path.name.isdigit()]


def _offset(line: str) -> tuple[str, int]:
    offset = json.loads(line)
    return str(offset["stream"]), int(offset["seq"])

"""What Spark's checkpoint directory tells about a run: its lineage, and the offsets and watermark of each batch.

``metadata`` holds the query id, which stays for the life of the checkpoint: that is the lineage. ``offsets/N`` is
written before batch N runs; its lines are a version, a JSON object with the watermark, and one offset per source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import StateError, check
from anabranch.model.times import MS


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The end of a batch: the last segment of each stream, and the watermark that it runs with."""

    ends: Mapping[str, int]
    watermark_us: int


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


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in directory.glob("*") if path.name.isdigit()]


def _offset(line: str) -> tuple[str, int]:
    offset = json.loads(line)
    return str(offset["stream"]), int(offset["seq"])

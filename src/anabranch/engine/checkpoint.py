"""What Spark's checkpoint directory tells about a run: its lineage, and the offsets and watermark of each batch.

``metadata`` holds the query id, which stays for the life of the checkpoint: that is the lineage. ``offsets/N`` is
written before batch N runs; its lines are a version, a JSON object with the watermark, and one offset per source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import StateError
from anabranch.model.times import MS


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The end of a batch: (stream, segment) per source in Spark's order, and the watermark that it runs with."""

    ends: tuple[tuple[str, int], ...]
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
        parsed = [_offset(line) for line in offsets if line != "-"]
        return BatchOffsets(tuple(parsed), int(json.loads(metadata)["batchWatermarkMs"]) * MS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"Spark's offset file {path} cannot be read: {error}.", remedy="Restore the state directory from a backup."
        ) from error


def last_batch(checkpoint: Path) -> int | None:
    """The newest batch that Spark has begun, or None before the first."""
    found = [int(path.name) for path in (checkpoint / "offsets").glob("*") if path.name.isdigit()]
    return max(found, default=None)


def _offset(line: str) -> tuple[str, int]:
    offset = json.loads(line)
    return str(offset["stream"]), int(offset["seq"])

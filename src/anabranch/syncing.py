"""Making a file or a directory durable."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

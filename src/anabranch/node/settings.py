"""What can be set on a node, with the defaults from ``limits``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How one node runs. ``port`` 0 takes any free one; ``conf`` holds any of Spark's own settings."""

    host: str = "127.0.0.1"
    port: int = 0
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    batch_rows: int = limits.BATCH_ROWS
    batch_interval_us: int = limits.BATCH_INTERVAL_US
    boundary_interval_us: int = limits.BOUNDARY_INTERVAL_US
    retention_us: int = limits.LOG_RETENTION_US
    log_bytes: int = limits.LOG_BYTES
    disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES
    tables: Mapping[str, str] = field(default_factory=dict)
    """Where a table of the query is on this machine, a file or a database, if not where the query says."""

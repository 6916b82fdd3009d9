"""The status of a deployment: what its nodes say of themselves, put together by node, query, fragment and stream.

The counterpart of ``runtime.status`` for all nodes together. As JSON, each field is a key of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from anabranch.runtime.status import AlarmStatus, LaneStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """What the file assigns to a node, of one query."""

    enters: tuple[str, ...]
    """sources"""
    runs: tuple[str, ...]
    """fragments"""
    writes: tuple[str, ...]
    """outputs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node, whether it answers or not."""

    state: str
    """that of its ``HostStatus``, or unreachable; where a supervisor runs it also paused, killed, ended"""
    address: str
    site: str
    queries: Mapping[str, RoleStatus]
    others: tuple[str, ...] = ()
    """queries that it runs and the file does not have"""
    uptime_s: float | None = None
    rows_in: int | None = None
    alarms: Mapping[str, AlarmStatus]
    error: str | None
    """what is wrong with it, or why it says nothing"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentCopyStatus:
    """A fragment on one node: how far it is behind its own journals, and what it has put out."""

    state: str
    lag_rows: int | None
    rows_out: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentStatus:
    """A fragment on all its nodes."""

    boxes: tuple[str, ...]
    copies: Mapping[str, FragmentCopyStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCopyStatus:
    """A stream as one node has it."""

    last_id: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCopyStatus:
    """A copy of a stream as its reader sees it. ``lag_rows`` is None where that cannot be compared."""

    state: str
    lag_rows: int | None
    first: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """A stream between nodes. A copy or a reader of which nobody says anything is None."""

    copies: Mapping[str, StreamCopyStatus | None]
    readers: Mapping[str, Mapping[str, ReadCopyStatus] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlace:
    """A lane at the entry point that is furthest ahead, and the address where it can be closed."""

    source: str
    punctuation_us: int
    silent_us: int
    closed: bool
    address: str
    waits_for: str | None = None
    """The origin that holds it at the horizon."""

    @classmethod
    def of(cls, lane: LaneStatus, *, address: str, source: str) -> Self:
        return cls(
            source=source,
            punctuation_us=lane.punctuation_us,
            silent_us=lane.silent_us,
            closed=lane.closed,
            address=address,
            waits_for=None if lane.held is None else lane.held.origin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedQueryStatus:
    """One query of the file on all its nodes."""

    mode: str
    fragments: Mapping[str, FragmentStatus]
    streams: Mapping[str, StreamStatus]
    lanes: Mapping[str, LanePlace]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStatus:
    """All nodes and queries of a deployment file."""

    file: str
    nodes: Mapping[str, NodeStatus]
    queries: Mapping[str, PlacedQueryStatus]

    def to_plain(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

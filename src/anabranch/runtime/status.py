"""The status of a host: one set of types that the host fills, the wire carries, and everybody reads by attribute.

``anabranch status``, deployments, benchmarks, experiments and tests read these types and nothing else, so a field that
is renamed is found by mypy and not by a user. As JSON, each field is a key of the same name: ``to_plain`` and
``from_plain`` are the only way there and back. ``docs/reference/status.md`` is written from the JSON schema of these
types and from the text below each field.

A client that reads a newer host ignores fields that it does not know, and shows states that it does not know as they
are. A status that lacks a field is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from anabranch.errors import ConfigError
from anabranch.model.node_state import NodeState

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import CoreSchema


class _OrNewer:
    """One of several states, or one that only newer releases have. It is pydantic that asks for the schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_wrap_validator_function(self._read, handler(source))

    @staticmethod
    def _read(value: Any, known: Callable[[Any], Any]) -> Any:
        return value if isinstance(value, str) else known(value)


OR_NEWER: Final = _OrNewer()

FeedState = Annotated[Literal["running", "waiting", "standby", "restarting", "finished", "failed", "stopped"], OR_NEWER]
WriterState = Annotated[Literal["running", "restarting", "failed", "stopped"], OR_NEWER]
SparkState = Annotated[Literal["starting", "running", "restarting", "failed"], OR_NEWER]


# --- sources -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLaneStatus:
    """The copy of a lane at one of several entry points."""

    state: Annotated[Literal["beginning", "learns", "follows", "leads"], OR_NEWER]
    """what this entry point does: beginning (looks for the others), learns, follows, leads"""
    leader: str | None
    """the entry point that leads; null if none is known"""
    term: int
    """how often a leader was sought"""
    held: int
    """entries stored here"""
    released: int
    """entries that a majority holds, and that the log of the source has"""
    kept: int
    """entries that are not yet trimmed"""
    peers: Mapping[str, int]
    """at the leader: entries that each other entry point holds"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLaneStatus:
    """Why rows of a lane wait: they are further ahead than the horizon of their source."""

    origin: str
    """the origin they wait for: the lane, or the box, that promises least"""
    punctuation_us: int
    """what it promises"""
    latest_us: int
    """the time of the latest row that waits"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatus:
    """One lane of a source."""

    next_number: int
    """the number that its next entry gets"""
    punctuation_us: int
    """no row before this time comes any more"""
    silent_us: int
    """since its last entry"""
    closed: bool
    """whether it takes nothing more"""
    shared: SharedLaneStatus | None = None
    """where several entry points share the lane; null at the only one"""
    held: HeldLaneStatus | None = None
    """while rows that were pushed wait for a slower origin; else null"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """One source, where its rows enter."""

    rows_in: int
    """since the start"""
    bytes_in: int
    """since the start"""
    late_rows: int
    """rows that came after their time was closed, since the start"""
    lanes: Mapping[str, LaneStatus]
    """by origin"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStatus:
    """What brings the rows of a source in, on the node itself."""

    kind: str
    """generator, file, nexmark, spark"""
    state: FeedState
    """waiting: the source does not take rows now, and `error` says why; standby: another node brings the rows"""
    speaks: bool
    """whether it brings the rows, or has brought all: other nodes that have the same feed wait for as long"""
    rows: int
    """rows that it brought since the start"""
    position: str
    """how far it is, in its own words"""
    lag_us: int
    """behind its own pace"""
    error: str | None
    """why it waits or has failed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStatus:
    """Another entry point that shares lanes with this one."""

    state: Annotated[Literal["there", "away"], OR_NEWER]
    """whether it answers"""
    error: str | None
    """why it does not"""


# --- stages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInputStatus:
    """A stream that a stage reads."""

    lag_rows: int
    """rows that Spark has not yet committed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsFor:
    """The lane that holds the windows of a stage."""

    origin: str
    """the lane that promises least"""
    punctuation_us: int
    """what it promises"""
    punctuation: str
    """the same, for people"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """One stage of a query on this node: a replica."""

    replica: str
    """its id: query, stage, node and generation"""
    state: Annotated[Literal["running", "restarting", "failed"], OR_NEWER]
    """failed: after all its tries; the other stages go on"""
    error: str | None
    """the last error, until a batch succeeds"""
    inputs: Mapping[str, StageInputStatus]
    """by stream"""
    caught_up: bool
    """whether its outputs show all that its inputs hold"""
    rows_out: int
    """since the start"""
    late_rows: int
    """rows that came too late for its WSort, since the start"""
    held_ms: int
    """how long batches were held back because a log was full, or a link was emulated; since the start"""
    batches: int
    """since the start"""
    batch_ms: float
    """how long the last batch took"""
    running: bool
    """whether its Spark query runs"""
    waits_for: WaitsFor
    """the lane it waits for"""

    @property
    def lag_rows(self) -> int:
        """Of all its inputs."""
        return sum(each.lag_rows for each in self.inputs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStatus:
    """The Spark of a node, which all its queries share."""

    state: SparkState
    """failed: given up until the next start"""
    starts: int
    """how often it was started"""
    error: str | None
    """how its JVM ended, until it runs again"""


# --- streams -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """A named reader of a log."""

    seq: int
    """the last segment that it needs no more"""
    lag_rows: int
    """rows that it has not confirmed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """The log of one stream."""

    kind: str
    """what it is for"""
    incarnation: str
    """changes when the log begins anew"""
    segments: int
    """segments that it holds"""
    rows: int
    """rows that it holds"""
    bytes: int
    """bytes that it holds"""
    limit_bytes: int
    """when its source pushes back, or its stage waits"""
    first_id: int
    """of the oldest row that it holds"""
    last_id: int
    """of the newest row"""
    first_seq: int
    """of the oldest segment that it holds"""
    end_seq: int
    """of the newest segment"""
    rows_in: int
    """rows since the log began"""
    bytes_in: int
    """bytes since the log began"""
    punctuations: Mapping[str, int]
    """by origin: no row before this time comes any more, in µs"""
    readers: Mapping[str, ReaderStatus]
    """by name"""
    cut_off: tuple[str, ...]
    """readers that fell too far behind"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStatus:
    """A copy of a stream that another node makes and this one reads: one side of an inlet."""

    state: Annotated[Literal["read", "away"], OR_NEWER]
    """whether it is read now"""
    position: str | None
    """up to where it was read; null if never"""
    error: str | None
    """why it is not read"""
    first: int
    """tuples that it delivered first, since the start"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStatus:
    """A copy of an output that this node compares with its own."""

    compared: Mapping[str, str]
    """up to which time, by origin"""
    error: str | None
    """why it cannot compare now"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestStatus:
    """What one copy has in an interval."""

    rows: int
    """tuples"""
    digest: str
    """of their contents"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An interval in which copies of a stream differ."""

    stream: str
    """its name"""
    origin: str
    """of which the tuples are"""
    start: str
    """of the interval"""
    end: str
    """of the interval"""
    copies: Mapping[str, DigestStatus]
    """by node"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmStatus:
    """That copies of a stream differ, since the node started or was rebuilt."""

    count: int
    """intervals in which they do"""
    latest: tuple[Difference, ...]
    """the latest of them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeterminantsStatus:
    """What a partner confirms in the experiment of primary and backup."""

    confirmed: int
    """the last tuple that it confirms"""
    error: str | None
    """why it confirms nothing"""
    kept: int
    """tuples of the partner that are known here"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStatus:
    """What writes an output elsewhere."""

    kind: str
    """jsonl, parquet, console, table, spark"""
    state: WriterState
    """restarting: it tries again"""
    rows: int
    """rows written since the start"""
    position: int
    """the last id written"""
    lag_rows: int
    """rows that it has not written"""
    error: str | None
    """why it restarts or has failed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A static table that a query reads."""

    rows: int
    """how many it has"""
    digest: str
    """of its contents"""


# --- hosts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """A part of a query on a node: its entry points, a replica, or its writers of outputs from elsewhere."""

    state: NodeState
    """as that of a node"""
    error: str | None
    """why it cannot continue"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """One query on a node. While it starts or is rebuilt, it has no contents."""

    state: NodeState
    """as that of a node"""
    error: str | None
    """why it, or a part of it, cannot continue"""
    uptime_s: float
    """since the node has it"""
    parts: Mapping[str, PartStatus] = field(default_factory=dict)
    """by name: `entry`, `writers`, or the first stage of a replica (`replica:entry` if that is its name)"""
    tables: Mapping[str, TableStatus] = field(default_factory=dict)
    """static tables, by name"""
    sources: Mapping[str, SourceStatus] = field(default_factory=dict)
    """sources that enter here, by name"""
    feeds: Mapping[str, FeedStatus] = field(default_factory=dict)
    """by source"""
    stages: Mapping[str, StageStatus] = field(default_factory=dict)
    """stages that run here, by name"""
    peers: Mapping[str, PeerStatus] = field(default_factory=dict)
    """other entry points of the same sources, by node"""
    inlets: Mapping[str, Mapping[str, CopyStatus]] = field(default_factory=dict)
    """what comes from elsewhere, by stream (`STREAM@REPLICA` for a further replica that reads it) and node"""
    compared: Mapping[str, Mapping[str, ComparedStatus]] = field(default_factory=dict)
    """outputs that no node reads, with the copies that this node asks, by output and node"""
    alarms: Mapping[str, AlarmStatus] = field(default_factory=dict)
    """streams whose copies differ, by stream"""
    determinants: Mapping[str, Mapping[str, DeterminantsStatus]] = field(default_factory=dict)
    """of an experiment, by stream and partner"""
    writers: Mapping[str, Mapping[str, WriterStatus]] = field(default_factory=dict)
    """by output and writer"""
    streams: Mapping[str, LogStatus] = field(default_factory=dict)
    """all logs of the query here, by stream"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """A link to another node that is emulated, or may be hurt."""

    state: Annotated[Literal["open", "cut"], OR_NEWER]
    """whether anything passes"""
    address: str
    """of the other node"""
    relay: str
    """where this node connects instead"""
    delay_us: int
    """added to whatever passes"""
    jitter_us: int
    """at most so much more"""
    rate_bytes_s: int | None
    """null without a limit"""
    connections: int
    """open now"""
    bytes_there: int
    """sent"""
    bytes_back: int
    """received"""
    bytes_held: int
    """in flight"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """A node, and all its queries."""

    node: str
    """its name"""
    address: str
    """where it answers"""
    state: NodeState
    """of its queries, the state that most needs attention"""
    intake: str
    """open, or why rows are not taken"""
    uptime_s: float
    """since its start"""
    executors: int | None
    """of its Spark; null without a cluster"""
    spark: SparkStatus | None
    """null if it needs none"""
    links: Mapping[str, LinkStatus]
    """by node"""
    queries: Mapping[str, QueryStatus]
    """by name"""

    @property
    def only_query(self) -> QueryStatus:
        """The query of a node that has one."""
        (query,) = self.queries.values()
        return query

    @property
    def rows_in(self) -> int:
        """Rows that entered here, of all queries."""
        return sum(source.rows_in for query in self.queries.values() for source in query.sources.values())


# --- as JSON -------------------------------------------------------------------------------------------------------


def to_plain(status: HostStatus) -> dict[str, Any]:
    """JSON values: each field is a key."""
    plain: dict[str, Any] = _adapter().dump_python(status, mode="json", warnings=False)  # of states of newer releases
    return plain


def from_plain(plain: Mapping[str, object]) -> HostStatus:
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(dict(plain))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"The status of the node cannot be read: {where}: {first['msg']}.",
            remedy="Use the same release of Anabranch on both sides.",
        ) from error


def schema() -> dict[str, Any]:
    """The JSON schema of ``anabranch status --json``."""
    return _adapter().json_schema(mode="serialization")


@cache
def _adapter() -> TypeAdapter[HostStatus]:
    """Made when it is first needed: most commands never ask a node."""
    from pydantic import TypeAdapter

    return TypeAdapter(HostStatus)

"""What a host is to run, as a frozen value: the one form in which a plan, the wire, the disk and a host have it.

An assignment has names only. A query is known by its diagram, which travels beside it; together they are a
``query.assigned.AssignedQuery``. Hosts are named as in the deployment, streams as in their query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch import limits
from anabranch.model.ids import FIRST_GENERATION, QueryId, ReplicaId
from anabranch.model.techniques import Technique


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedReplica:
    """A stage that the host runs."""

    stage: str
    inputs: Mapping[str, tuple[str, ...]]
    """Per stream that it reads, the hosts whose replicas or entry points make it. All of them are read, unless the
    same part of the host makes it (``query.parts``)."""
    peers: tuple[str, ...] = ()
    """The other hosts that run the same stage. It can be rebuilt from any of them."""
    generation: int = FIRST_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedEntry:
    """A source whose rows come in at the host."""

    source: str
    peers: tuple[str, ...] = ()
    """Its other entry points."""
    feeds: bool = False
    """Whether the feed of the source runs here."""
    feed_hosts: tuple[str, ...] = ()
    """Where several hosts have the feed: all of them, in the order in which they take it over. One brings rows."""
    takeover_us: int = limits.FEED_TAKEOVER_US
    """How long none of them may be heard to bring rows before the next one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedWriter:
    """An output whose writers run at the host."""

    output: str
    made_on: tuple[str, ...]
    """The hosts that have a copy. If this one is not among them, it reads them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignment:
    """What a host runs of one query, or a part of that."""

    query: QueryId
    host: str
    part: str = ""
    """Of a replica, if it is only that: the first of its stages. It is called so on all hosts that run it."""
    cuts: tuple[tuple[str, int, str], ...] = ()
    """The arrows that lead to boxes on other hosts, as box, output and reading box: where the query is cut into stages
    besides where it always is. All hosts cut alike."""
    replicas: tuple[AssignedReplica, ...] = ()
    """In the order of flow."""
    entries: tuple[AssignedEntry, ...] = ()
    writers: tuple[AssignedWriter, ...] = ()
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per stream that is made here, the parts that read it through an inlet, as ``reader_name`` calls them."""
    compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per output that is made here and read by no host, the others that have a copy."""
    shares_tables: tuple[str, ...] = ()
    """The other hosts that read a static table which is read here."""
    technique: Technique = Technique.RACE
    """What holds back what others would race for, where a stage has peers; for experiments."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Of all hosts that are named above."""

    def replica(self, stage: str) -> ReplicaId:
        """The id of a replica of this host."""
        generation = next(each.generation for each in self.replicas if each.stage == stage)
        return ReplicaId(self.query, stage, self.host, generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a host runs. One that runs nothing waits for a query."""

    host: str
    queries: Mapping[QueryId, QueryAssignment] = field(default_factory=dict)

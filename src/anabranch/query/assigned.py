"""A query and what one host runs of it: the assignment, with the stages that it names.

An assignment speaks of stages by name. Which Spark queries these are follows from the diagram and from where it is
cut, so every host comes to the same stages by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from anabranch.errors import ConfigError
from anabranch.model.assignment import AssignedEntry, AssignedReplica, AssignedWriter, QueryAssignment
from anabranch.model.ids import QueryId, ReplicaId, StreamId
from anabranch.model.names import lane_origin, reader_name
from anabranch.query.boxes import Arrow, Diagram
from anabranch.query.connectors import SparkFeed
from anabranch.query.graph import Stage, origins, stages


class AssignedQuery:
    """What a host runs of a query. It never changes; two with the same diagram and assignment are equal."""

    def __init__(self, diagram: Diagram, assignment: QueryAssignment, directory: Path | None = None) -> None:
        """``directory`` is what relative paths of tables begin at, on this machine: where the query's file is."""
        self.directory: Final = directory
        self.diagram: Final = diagram
        self.assignment: Final = assignment
        self.all_stages: Final = stages(diagram, {(Arrow(box, port), reader) for box, port, reader in assignment.cuts})
        """Of the whole query, in the order of flow: their types follow from each other."""
        made = {stage.name: stage for stage in self.all_stages}
        unknown = [each.stage for each in assignment.replicas if each.stage not in made]
        if unknown or assignment.query != diagram.name:
            raise ConfigError(
                f"The assignment of {assignment.query!r} does not match its query: no stage {', '.join(unknown)}.",
                remedy="Deploy the query with anabranch deploy, and run the same version on all hosts.",
            )
        self.stages: Final[tuple[Stage, ...]] = tuple(made[each.stage] for each in assignment.replicas)
        """Those that run here."""
        self.entries: Final = frozenset(each.source for each in assignment.entries)
        """Sources whose rows come in here."""
        self.feeds: Final = frozenset(each.source for each in assignment.entries if each.feeds)
        """Those of them whose feeds run here."""
        self.fed_elsewhere: Final = {
            each.source: self._at(each.feed_hosts) for each in assignment.entries if len(each.feed_hosts) > 1
        }
        """Per source whose feed other hosts have, too, these hosts and their addresses."""
        self.writes: Final = frozenset(each.output for each in assignment.writers)
        """Outputs whose writers run here."""
        self.readers: Final = assignment.readers
        self.technique: Final = assignment.technique
        self.peers: Final = {each.source: self._at(each.peers) for each in assignment.entries}
        """Per source that comes in here, its other entry points, and their addresses."""
        self.made: Final = frozenset({*self.entries, *(each.stream for stage in self.stages for each in stage.targets)})
        """The streams that come in or are computed here."""
        self.upstream: Final = self._read_from()
        """Per stream that is read and not made here, the hosts that have a copy, and their addresses. The host itself
        is one of them where another part of it makes the stream."""
        self.siblings: Final = self._at(self._peers())
        """The other hosts that run the same stages, from any of which these can be rebuilt, and their addresses."""
        self.compared: Final = {stream: self._at(hosts) for stream, hosts in assignment.compared.items()}
        """Per output that is made here and read by no host, the others that have a copy, and their addresses."""
        self.shares_tables: Final = self._at(assignment.shares_tables)
        """The other hosts that read a table which is read here, and their addresses."""

    @classmethod
    def whole(cls, diagram: Diagram, directory: Path | None = None) -> AssignedQuery:
        """Everything, on a host that has no name because there is no other."""
        made = stages(diagram)
        assignment = QueryAssignment(
            query=QueryId(diagram.name),
            host="",
            replicas=tuple(AssignedReplica(stage=each.name, inputs=dict.fromkeys(each.inputs, ("",))) for each in made),
            entries=tuple(AssignedEntry(source=source.name, feeds=True) for source in diagram.sources),
            writers=tuple(AssignedWriter(output=output.name, made_on=("",)) for output in diagram.outputs),
        )
        return cls(diagram, assignment, directory)

    @property
    def query(self) -> QueryId:
        return self.assignment.query

    @property
    def host(self) -> str:
        return self.assignment.host

    @property
    def reader(self) -> str:
        """As what it reads the copies of others."""
        return self.reader_at(self.host)

    def reader_at(self, host: str) -> str:
        """As what the same stages of another host read."""
        return reader_name(self.assignment.part, host)

    @property
    def called(self) -> str:
        """For people."""
        part = self.assignment.part
        return f"The replica {part} of {self.query} on {self.host!r}" if part else f"Node {self.host!r}"

    def replica(self, stage: str) -> ReplicaId:
        return self.assignment.replica(stage)

    def stream(self, name: str) -> StreamId:
        return StreamId(self.query, name)

    @property
    def streams(self) -> frozenset[str]:
        """All that the host has, once it runs: what comes in, what its stages make, and what it reads from others."""
        return self.made | self.upstream.keys()

    @property
    def needs_spark(self) -> bool:
        """Whether a host starts Spark for it: to run stages or a feed of Spark's, or to find out the types of what it
        reads from other hosts. A host with writers has one of the first two; an entry point alone has neither."""
        fed = any(isinstance(source.feed, SparkFeed) for source in self.diagram.sources if source.name in self.feeds)
        return bool(self.stages) or bool(self.upstream) or fed

    def origins(self) -> dict[str, frozenset[str]]:
        """Per stream of the query, the origins that its tuples can have."""
        found = {
            source.name: frozenset(lane_origin(source.name, lane) for lane in source.lanes)
            for source in self.diagram.sources
        }
        return found | {
            target.stream: origins(self.diagram, target.arrow) for stage in self.all_stages for target in stage.targets
        }

    def _read_from(self) -> dict[str, Mapping[str, str]]:
        read = [(stream, hosts) for each in self.assignment.replicas for stream, hosts in each.inputs.items()]
        read += [(writer.output, writer.made_on) for writer in self.assignment.writers]
        addresses = self.assignment.addresses
        return {stream: {host: addresses[host] for host in hosts} for stream, hosts in read if stream not in self.made}

    def _peers(self) -> tuple[str, ...]:
        """Those of all stages, if all have the same."""
        peers = {replica.peers for replica in self.assignment.replicas}
        return peers.pop() if len(peers) == 1 else ()

    def _at(self, hosts: Iterable[str]) -> Mapping[str, str]:
        return {host: self.assignment.addresses[host] for host in hosts if host != self.host}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AssignedQuery):
            return NotImplemented
        return (self.diagram, self.assignment) == (other.diagram, other.assignment)

    __hash__ = None  # type: ignore[assignment]

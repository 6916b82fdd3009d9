"""The doors of a host: whatever comes over the wire is led to the part of a query that it is about.

Names on the wire carry the query (``query/stream``); inside of a query they do not. Here the query is taken off on the
way in. A client may leave it out where only one query of the host has such a stream; where several have, it is told
between which it has to choose. A stream is the affair of the part that makes it. Of one that is starting or being
rebuilt, whoever asks is told to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from anabranch.core.roll_call import Roll
from anabranch.core.telling import Range, Told
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable, StreamNotFound
from anabranch.model.ids import JournalId, QueryId, StreamId, query_of
from anabranch.model.links import LinkFault
from anabranch.model.names import LATE_SUFFIX
from anabranch.model.position import Position
from anabranch.node.hosted_part import HostedPart
from anabranch.node.query_parts import QueryParts
from anabranch.node.reading import wire_batches
from anabranch.node.streams import check_name
from anabranch.runtime.status import HostStatus
from anabranch.transport.calls import Greeting
from anabranch.transport.journals import Control, JournalRequest, MadeBatch, Rows
from anabranch.transport.letters import AboutLane
from anabranch.transport.ports import (
    CopyAcknowledgement,
    CopyAnswer,
    CopyPiece,
    CopyRequest,
    CopyReservation,
    Determinants,
    PeerPlaces,
    PieceAnswer,
    PieceRequest,
    Push,
    PushAnswer,
    ReadRequest,
    Registration,
    SnapshotPiece,
    StreamInfo,
)

Queries = Mapping[QueryId, QueryParts]


class Finder:
    """Which query a name is about. ``queries`` may grow."""

    def __init__(self, queries: Queries) -> None:
        self._queries: Final = queries

    def query(self, query: str) -> QueryParts:
        found = self._queries.get(QueryId(query))
        if found is None:
            raise self.unknown(f"This node has no query {query!r}.")
        return found

    def find(self, name: str) -> tuple[HostedPart, str]:
        """The part of a query that has this stream, and the name of the stream in it."""
        query, stream = self.of(name)
        return query.having(stream), stream

    def source(self, name: str) -> tuple[HostedPart, str]:
        """The part of a query that takes in the rows of this source, and the name of the source in it."""
        query, source = self.of(name)
        return query.entering(source), source

    def of(self, name: str) -> tuple[QueryParts, str]:
        """The query that has this stream, and the name of the stream in it."""
        query, stream = query_of(name)
        if query is not None:
            return self.query(query), stream
        if len(self._queries) == 1:
            (only,) = self._queries.values()
            return only, stream
        having = [each for each in list(self._queries.values()) if stream.removesuffix(LATE_SUFFIX) in each.streams]
        if not having:
            raise self.unknown(f"There is no stream {stream!r}.")
        if len(having) > 1:
            candidates = ", ".join(sorted(str(StreamId(each.id, stream)) for each in having))
            raise StreamNotFound(
                f"Several queries of this node have a stream {stream!r}.", remedy=f"Name one of: {candidates}."
            )
        return having[0], stream

    def unknown(self, message: str) -> AnabranchError:
        """A host that waits for a query may have it soon: whoever asks tries again, as if it were not there yet."""
        if not self._queries:
            return NodeUnreachable("The node is waiting for a query.", remedy="Give it one: anabranch deploy FILE")
        streams = [StreamId(each.id, stream) for each in list(self._queries.values()) for stream in each.streams]
        return StreamNotFound(message, remedy=f"Streams: {', '.join(sorted(map(str, streams)))}.")


class ClientDoors:
    """What clients ask. ``status`` and ``fault`` are the host's own affair."""

    def __init__(
        self,
        queries: Queries,
        *,
        status: Callable[[], HostStatus],
        fault: Callable[[str, LinkFault], None],
    ) -> None:
        self._queries: Final = queries
        self._finder: Final = Finder(queries)
        self._status = status
        self._fault = fault

    def streams(self) -> list[StreamInfo]:
        """Of all queries that have begun."""
        return [info for each in list(self._queries.values()) for info in each.infos()]

    def stream(self, name: str) -> StreamInfo:
        query, stream = self._finder.find(name)
        with query.calls.inside():
            return query.streams.info(stream)

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        query, stream = self._finder.find(request.stream)
        request = replace(request, stream=stream)
        with query.calls.inside():
            log = query.streams.log_for(request)
            batches = wire_batches(log, request, lambda: cancelled() or query.is_stopping)
        return query.calls.reading(batches)

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        query, stream = self._finder.find(request.stream)
        with query.calls.inside():
            answer, pieces = query.streams.read_pieces(
                replace(request, stream=stream), lambda: cancelled() or query.is_stopping
            )
        return replace(answer, query=query.id), query.calls.reading(pieces)

    def register(self, source: str, producer: str, session: int | None = None) -> Registration:
        check_name("producer", producer)
        query, name = self._finder.source(source)
        with query.calls.inside():
            return replace(query.entry(name).register(producer, session), query=query.id)

    def push(self, push: Push) -> PushAnswer:
        query, name = self._finder.source(push.source)
        with query.calls.inside():
            return query.entry(name).push(push)

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        query, name = self._finder.find(stream)
        with query.calls.inside():
            query.streams.acknowledge(name, reader, position)

    def forget_reader(self, stream: str, reader: str) -> None:
        query, name = self._finder.find(stream)
        with query.calls.inside():
            query.streams.forget_reader(name, reader)

    def close_lane(self, source: str, lane: str | None) -> None:
        query, name = self._finder.source(source)
        with query.calls.inside():
            entry = query.entry(name)
            lanes = entry.source.lanes
            if lane is None and len(lanes) > 1:
                raise ConfigError(f"Source {name!r} has several lanes.", remedy=f"Name one of: {', '.join(lanes)}.")
            entry.close_lane(lanes[0] if lane is None else lane)

    def status(self) -> HostStatus:
        return self._status()

    def fault_link(self, node: str, fault: LinkFault) -> None:
        self._fault(node, fault)


class HostDoors:
    """What other hosts ask: those that read copies, share lanes, are rebuilt, or compare outputs."""

    def __init__(self, queries: Queries) -> None:
        self._queries: Final = queries
        self._finder: Final = Finder(queries)

    # --- copies ----------------------------------------------------------------------------------------------------

    def read_copy(self, request: CopyRequest, cancelled: Callable[[], bool]) -> tuple[CopyAnswer, Iterator[CopyPiece]]:
        query, stream = self._finder.find(request.stream)
        with query.calls.inside():
            answer, pieces = query.streams.copies.read_copy(
                replace(request, stream=stream), lambda: cancelled() or query.is_stopping
            )
        return answer, query.calls.reading(pieces)

    def acknowledge_copies(self, acknowledgements: Sequence[CopyAcknowledgement]) -> None:
        """One that cannot be taken holds up no other."""
        said: dict[HostedPart, list[CopyAcknowledgement]] = {}
        refused: AnabranchError | None = None
        for each in acknowledgements:
            try:
                part, stream = self._finder.find(each.stream)
            except (NodeUnreachable, StreamNotFound) as error:
                refused = error
            else:
                said.setdefault(part, []).append(replace(each, stream=stream))
        for part, about in said.items():
            try:
                with part.calls.inside():
                    part.streams.copies.acknowledge_copies(about)
            except (NodeUnreachable, StreamNotFound) as error:
                refused = error
        if refused is not None:
            raise refused

    def wake(self) -> None:
        for query in list(self._queries.values()):
            for part in query.parts:
                part.streams.copies.wake()

    def reserve_copy(self, reservation: CopyReservation) -> None:
        query, stream = self._finder.find(reservation.stream)
        with query.calls.inside():
            query.streams.copies.reserve_copy(replace(reservation, stream=stream))

    # --- lanes -----------------------------------------------------------------------------------------------------

    def hear(self, sender: str, letter: Sequence[AboutLane]) -> list[AboutLane]:
        said: dict[HostedPart, list[AboutLane]] = {}
        for each in letter:
            part, source = self._finder.source(each.source)
            said.setdefault(part, []).append(AboutLane(source, each.lane, each.message))
        answers: list[AboutLane] = []
        for part, about in said.items():
            with part.calls.inside():
                heard = part.peers.hear(sender, about)
            answers += [AboutLane(str(StreamId(part.id, each.source)), each.lane, each.message) for each in heard]
        return answers

    def greet(self, greeting: Greeting) -> Roll:
        query, source = self._finder.source(greeting.source)
        with query.calls.inside():
            return query.peers.greet(replace(greeting, source=source))

    # --- peers -----------------------------------------------------------------------------------------------------

    def places(self, query: QueryId, asker: str) -> PeerPlaces:
        asked = self._finder.query(query).like(asker)
        with asked.calls.inside():
            return asked.snapshots.places(asker)

    def snapshot(self, query: QueryId, asker: str) -> tuple[str, Iterator[SnapshotPiece]]:
        asked = self._finder.query(query).like(asker)
        with asked.calls.inside():
            life, pieces = asked.snapshots.snapshot(asker)
        return life, asked.calls.reading(pieces)

    def keep_determinants(self, said: Determinants) -> None:
        query, stream = self._finder.find(said.stream)
        if query.synchronizing is None:
            raise StreamNotFound("This node keeps no determinants.", remedy="Deploy the same query to all nodes.")
        query.synchronizing.keep_determinants(replace(said, stream=stream))

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        query, name = self._finder.find(stream)
        with query.calls.inside():
            return query.compared.digests(asker, name, asked)


class SparkDoors:
    """What Spark asks: the journals of all stages, and the way of its batches into their logs."""

    def __init__(self, queries: Queries) -> None:
        self._finder: Final = Finder(queries)

    def latest(self, stream: str, stage: str, scan: int, after_seq: int, max_rows: int) -> int:
        part, name = self._journal(stream)
        return part.journals.latest(name, query_of(stage)[1], scan, after_seq, max_rows)

    def ranges(self, stream: str, after_seq: int, to_seq: int, at_most: int) -> list[int]:
        part, name = self._journal(stream)
        return part.journals.ranges(name, after_seq, to_seq, at_most)

    def is_at_hand(self, stream: str, after_seq: int, to_seq: int) -> bool:
        part, name = self._journal(stream)
        return part.journals.is_at_hand(name, after_seq, to_seq)

    def read(self, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        part, name = self._journal(request.stream)
        return part.journals.read(replace(request, stream=name))

    def wait_room(self, stage: str, life: int, seconds: float) -> bool:
        part, name = self._stage(stage)
        return part.journals.wait_room(name, life, seconds)

    def log(self, batch: MadeBatch) -> None:
        part, name = self._stage(batch.stage)
        part.journals.log(replace(batch, stage=name))

    def _journal(self, text: str) -> tuple[HostedPart, str]:
        journal = JournalId.parse(text)
        return self._finder.query(journal.query).running(journal.stage), journal.stream

    def _stage(self, stage: str) -> tuple[HostedPart, str]:
        query, name = query_of(stage)
        if query is None:
            raise StreamNotFound(f"This node runs no stage {stage!r}.", remedy="Only Spark sends this request.")
        return self._finder.query(query).running(name), name

"""The streams of a part of a query: their stores and logs, who reads them, and what can be forgotten.

Readers are of three kinds. Those inside the part, its stages, writers and inlets, are never cut off. Other parts, on
this host or elsewhere, are served by ``copies``. All others are clients that gave a name, so that nothing is forgotten
before they acknowledge it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from anabranch import limits
from anabranch.errors import ConfigError, NodeUnreachable, OperatorError, StreamNotFound
from anabranch.model.names import fragments_read, is_name, replica_reader
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node.copying import Copies
from anabranch.node.inlet import INLET_READER
from anabranch.node.kept_lane import has_entries
from anabranch.node.part_reports import PartReports
from anabranch.node.pieces import client_pieces
from anabranch.node.serving import ServedLog
from anabranch.node.settings import NodeSettings
from anabranch.node.stages import StageRunner, stage_reader
from anabranch.node.synchronizing import Synchronizing
from anabranch.node.trimming import is_large, trim_log
from anabranch.node.writing import writer_readers
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.graph import all_origins
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.ports import CopyPiece, PieceAnswer, PieceRequest, ReadRequest, Start, StreamInfo
from anabranch.transport.wire import wire_schema

_FIRST_START_WAIT_S: Final = 5.0  # below the time that a client waits for an answer


class Streams:
    """``logs`` has the store and the log of each stream that is there. ``ready`` is set when all of them are."""

    def __init__(
        self,
        diagram: Diagram,
        part: AssignedQuery,
        settings: NodeSettings,
        *,
        clock: Callable[[], int],
        ready: threading.Event,
        synchronizing: Synchronizing | None = None,
    ) -> None:
        self._diagram = diagram
        self._part = part
        self._settings = settings
        self._origins = all_origins(diagram)
        self._stream_origins = part.origins()
        self._clock = clock
        self._ready = ready
        self._started = time.monotonic()
        self._started_us = clock()
        self._served: dict[str, ServedLog] = {}
        self.stores: Final[dict[Path, Store]] = {}
        self.logs: Final[dict[str, tuple[Store, Log]]] = {}
        self.are_closed = False
        self._synchronizing = synchronizing
        held = None if synchronizing is None else synchronizing.held
        self.reports: Final = PartReports(part, self.logs)
        self.copies: Final = Copies(
            self._served,
            keep=self.kept_readers,
            fragments=self.fragments_read,
            held=held,
            to_come=part.readers,
            told=self.reports.told,
        )

    # --- opening and closing ---------------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """A store; what is in it can be read from here on."""
        store = self.stores[path] = Store.open(path)
        self.logs.update({name: (store, log) for name, log in store.logs.items()})

    def create(self, store: Store, name: str, schema: pa.Schema, kind: str) -> None:
        """The log, with the stages that read it as named readers from its first segment on."""
        log = store.create_log(
            LogSpec(
                name=name,
                schema=schema,
                origins=self._origins.names,
                kind=kind,
                retention_us=self._settings.retention_us,
                limit_bytes=self._settings.log_bytes,
            )
        )
        missing = self._stage_readers(name) - log.readers().keys()
        if missing:
            with store.transaction() as transaction:
                for reader in missing:
                    transaction.add_reader(name, reader, at_seq=0)
        self.logs[name] = (store, log)
        if name in self._part.readers:
            readers = [replica_reader(reader) for reader in self._part.readers[name]]
            self._served[name] = ServedLog(store, log, readers, clock=self._clock)
            if self._synchronizing is not None:
                self._synchronizing.open(log)

    def are_empty(self) -> bool:
        return all(log.last_id() == 0 for _, log in self.logs.values())

    def have_entries(self) -> bool:
        """Whether a lane has entries that are in no log yet."""
        return any(has_entries(store) for store in self.stores.values())

    def close(self) -> None:
        self.are_closed = True
        for store in self.stores.values():
            store.close()

    # --- finding ---------------------------------------------------------------------------------------------------

    def find(self, stream: str) -> tuple[Store, Log]:
        known = self._part.made
        # On a first start Spark alone knows the output's columns: clients try again until it has told them.
        if stream in known and stream not in self.logs and not self._ready.wait(_FIRST_START_WAIT_S):
            raise NodeUnreachable(f"Stream {stream!r} is not available yet: the node is starting.")
        if stream not in self.logs:
            raise StreamNotFound(f"There is no stream {stream!r}.", remedy=f"Streams: {', '.join(sorted(self.logs))}.")
        return self.logs[stream]

    def info(self, stream: str) -> StreamInfo:
        return self._info(self.find(stream)[1])

    def infos(self) -> list[StreamInfo]:
        return [self._info(log) for _, (_, log) in sorted(self.logs.items())]

    def _info(self, log: Log) -> StreamInfo:
        return StreamInfo(
            name=log.name,
            kind=log.spec.kind,  # type: ignore[arg-type]
            schema=wire_schema(log.spec.schema),
            incarnation=log.incarnation,
            first_id=log.first_id(),
            last_id=log.last_id(),
            origins=self._reaching(log.name),
            query=self._part.query,
        )

    def _reaching(self, stream: str) -> tuple[str, ...]:
        """The origins that its tuples can have; none where nothing is ever promised, as in a stream of late rows."""
        return tuple(sorted(self._stream_origins.get(stream, ())))

    # --- readers ---------------------------------------------------------------------------------------------------

    def kept_readers(self, stream: str) -> frozenset[str]:
        """Readers inside this node, which nobody may cut off or forget: its stages, writers and inlets."""
        own = frozenset({INLET_READER}) if stream in self._part.upstream else frozenset[str]()
        return own | self._stage_readers(stream) | writer_readers(self._diagram.outputs, stream)

    def fragments_read(self, stream: str) -> dict[str, str]:
        """What the parts of all hosts run that read the stream."""
        return fragments_read(self._part.readers.get(stream, ()))

    def _stage_readers(self, stream: str) -> frozenset[str]:
        return frozenset(stage_reader(stage.name) for stage in self._part.stages if stream in stage.inputs)

    def log_for(self, request: ReadRequest) -> Log:
        """What the request reads. A reader that gives a name is known from here on."""
        store, log = self.find(request.stream)
        if request.reader is not None:
            check_name("reader", request.reader)
            if request.reader not in log.readers():
                _add_reader(store, log, request.reader, request.start)
        return log

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        """A stream as one of several copies, for a client. One that gives a name is known from here on."""
        store, log = self.find(request.stream)
        answer, sent = client_pieces(log, self._reaching(log.name), request, cancelled)
        if request.reader is not None:
            check_name("reader", request.reader)
            if request.reader not in log.readers():
                _add_reader(store, log, request.reader, Position(answer.incarnation, answer.first_id - 1))
        return answer, sent

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        check_name("reader", reader)  # the stages of this node read under names that no client can have
        store, log = self.find(stream)
        if position.incarnation != log.incarnation:
            raise StreamNotFound(
                f"Stream {stream!r} is now incarnation {log.incarnation}.", remedy="Read it from start."
            )
        if position.id + 1 < log.first_id():
            return  # it is trimmed already: an old acknowledgement that was overtaken
        with store.transaction() as transaction:
            transaction.acknowledge(stream, reader, log.seq_before_id(position.id + 1))
            transaction.trim(stream, now_us=self._age_us())

    def forget_reader(self, stream: str, reader: str) -> None:
        store, log = self.find(stream)
        replicas = {replica_reader(reader) for reader in self._part.readers.get(stream, ())}
        others = (log.readers().keys() | log.cut_off()) - self.kept_readers(stream) - replicas
        if reader not in others:
            names = ", ".join(sorted(others)) or "none"
            raise StreamNotFound(f"Stream {stream!r} has no named reader {reader!r}.", remedy=f"Its readers: {names}.")
        with store.transaction() as transaction:
            transaction.remove_reader(stream, reader)

    def renew(self, stream: str, floors: Punctuations) -> None:
        """Some tuples below these times will never be in the stream: who reads it asks again, and is told."""
        if stream in self._served:
            self.copies.renew(stream, floors)
            return
        with self.logs[stream][0].transaction() as transaction:
            transaction.begin_incarnation(stream, floors)

    # --- writing and forgetting ------------------------------------------------------------------------------------

    def say_punctuations(self, stream: str) -> None:
        """Says the present punctuations again, or that there are none: either way there is a batch to run."""
        store, _ = self.logs[stream]
        with store.transaction() as transaction:
            transaction.append(stream, None, {}, now_us=self._clock(), force=True)

    def trim(self, runners: Sequence[StageRunner], *, only_large: bool = False) -> None:
        """Stores what the stages have acknowledged, and lets every log forget what nobody needs; or those logs that
        cannot wait until all are trimmed."""
        for name, (store, log) in list(self.logs.items()):
            if only_large and not is_large(log):
                continue
            readers = [runner for runner in runners if name in runner.stage.inputs]
            acknowledged = {
                stage_reader(runner.stage.name): runner.acknowledged[name]
                for runner in readers
                if name in runner.acknowledged
            }
            if any(seq > log.readers().get(reader, 0) for reader, seq in acknowledged.items()):
                with store.transaction() as transaction:
                    for reader, seq in acknowledged.items():
                        transaction.acknowledge(name, reader, seq)
            if name not in self._served:
                trim_log(store, log, keep=self.kept_readers(name), now_us=self._age_us())
            # A batch is known to be committed when the next one begins. If all of a full log is in one batch, no row
            # can come that begins the next: the log would be full for ever.
            if log.is_full() and any(runner.keeps_read_rows(name) for runner in readers):
                self.say_punctuations(name)
        self.copies.trim(is_large if only_large else lambda _: True)

    def _age_us(self) -> int:
        """The time by which rows grow old. A clock that is set forward must not make all of them old at once."""
        return self._started_us + round((time.monotonic() - self._started) * 1_000_000)


def check_name(kind: str, name: str) -> None:
    if not is_name(name):
        raise ConfigError(f"{name!r} is not a name for a {kind}.", remedy="Use a letter, then letters, digits, _ or -.")


def _add_reader(store: Store, log: Log, reader: str, start: Start) -> None:
    if len(log.readers()) >= limits.READERS:
        raise OperatorError(f"Stream {log.name!r} has {limits.READERS} named readers.", remedy="Forget one first.")
    match start:
        case "start":
            at_seq = log.first_seq() - 1
        case "end":
            at_seq = log.end_seq()
        case Position(incarnation=incarnation) if incarnation != log.incarnation:
            return  # the read itself says so; a reader that is nowhere must not hold the log
        case Position(id=last_id):
            at_seq = log.seq_before_id(last_id + 1)
    with store.transaction() as transaction:
        transaction.add_reader(log.name, reader, at_seq=at_seq)

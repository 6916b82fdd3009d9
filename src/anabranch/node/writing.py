"""The writers of a node: one thread each, which follows the log of an output and hands tuples to the writer.

A writer is a named reader of the log: what it has not made durable elsewhere stays in the log, and it acknowledges
only afterwards. At the start it says how far it has come, and the thread goes on there; a place that holds tuples of
another stream, or a gap between it and the log, is refused, never papered over. What fails is tried again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch import failpoints, limits
from anabranch.connectors.console import Console
from anabranch.connectors.file_writer import JsonLinesFile, ParquetFiles
from anabranch.connectors.table_writer import KeyedTable
from anabranch.connectors.writer import Found, TupleWriter, written_schema
from anabranch.core.backoff import Backoff
from anabranch.errors import AnabranchError, ConfigError, EngineError, InvariantBroken, StateError, StreamNotFound
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.query.boxes import Output
from anabranch.query.connectors import (
    ConsoleWriter,
    JsonLinesWriter,
    ParquetWriter,
    SparkWriter,
    TableWriter,
    Writer,
    writer_key,
)
from anabranch.query.specs import kind_name
from anabranch.runtime.status import WriterState, WriterStatus
from anabranch.storage.log import Log, Segment
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

_log: Final = logging.getLogger("anabranch.writer")

PREFIX: Final = "writer:"
"""Of the names under which writers read: no client can have such a name."""

LOOK_S: Final = 0.2
"""How long a writer sleeps before it looks whether the node stops."""

QUIET_SEGMENTS: Final = 100
"""Segments without rows that a writer lets pass before it acknowledges them: each costs a transaction."""

_STORED_HEADER: Final = 3
_REPLACED: Final = "writers of a replaced log"


def durable_writers(outputs: Iterable[Output]) -> list[str]:
    """The keys of those that keep what they wrote."""
    return [writer_key(spec) for output in outputs for spec in output.to if not isinstance(spec, ConsoleWriter)]


def forget_places(transaction: Transaction, writers: Sequence[str]) -> None:
    """The log was replaced by that of a peer: nobody knows any more how far these had come, nor by which ids."""
    transaction.put(_REPLACED, json.dumps(writers).encode())


def writer_reader(writer: Writer) -> str:
    """The name under which a writer reads its log."""
    return PREFIX + writer_key(writer)


class WriterRunner:
    """One writer of one output, and the thread that serves it."""

    def __init__(
        self, output: str, spec: Writer, writer: TupleWriter, store: Store, log: Log, stopping: threading.Event
    ) -> None:
        self.key: Final = writer_key(spec)
        self._kind = kind_name(spec)
        self._output = output
        self._reader = writer_reader(spec)
        self._writer = writer
        self._store = store
        self._source = log
        self._stopping = stopping
        self._schema = written_schema(log.spec.schema)
        self._seq = 0
        self._last_id = 0
        self._handed_id = 0
        self._handed_rows = 0
        self._acknowledged = 0
        self._waiting_since: float | None = None
        self._rows = 0
        self._error: AnabranchError | None = None
        self._failed = False
        self._thread = threading.Thread(target=self._run, name=f"writer {output} {self.key}", daemon=True)

    # --- life ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Finds the place to go on from, and keeps the log from forgetting what comes after it."""
        try:
            self._find_place()
        except BaseException:
            self._writer.close()
            raise

    def _find_place(self) -> None:
        if self._writer.durable:
            self._refuse_replaced()
        found = self._writer.recover()
        if not self._writer.durable:
            self._seq = self._acknowledged = self._source.end_seq()
            return
        self._seq = self._place(found)
        self._last_id = found.last_id
        if self._reader not in self._source.readers():
            with self._store.transaction() as transaction:
                transaction.add_reader(self._source.name, self._reader, at_seq=self._seq)
        self._acknowledged = self._source.readers()[self._reader]

    def start(self) -> None:
        self._thread.start()

    def stop(self, deadline: float) -> None:
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()))
        self._writer.close()

    def statistics(self) -> WriterStatus:
        behind = self._source.last_id() - self._last_id if self._last_id else self._source.rows_after(self._seq)
        return WriterStatus(
            kind=self._kind,
            state=self._state(),
            rows=self._rows,
            position=self._last_id,
            lag_rows=max(0, behind),
            error=str(self._error) if self._error is not None else None,
        )

    def _state(self) -> WriterState:
        if self._failed:
            return "failed"
        if not self._thread.is_alive():
            return "stopped"
        return "running" if self._error is None else "restarting"

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set() and not self._failed:
            try:
                if self._error is not None:
                    self.open()
                    self._error = None
                while not self._stopping.is_set():
                    backoff = Backoff() if self._step() else backoff
            except (OSError, EngineError) as error:  # the disk, the database: they may come back
                self._error = error if isinstance(error, EngineError) else EngineError(f"{self.key}: {error}.")
                self._note()
                backoff = backoff.failed()
                self._stopping.wait(backoff.wait_s)
            except AnabranchError as error:
                self._fail(error)
            except Exception as error:
                self._fail(InvariantBroken(f"The writer {self.key} failed: {error!r}."))

    def _fail(self, error: AnabranchError) -> None:
        self._error = error
        self._failed = True
        self._note()

    def _note(self) -> None:
        if not self._stopping.is_set():
            _log.warning("The writer of output %r: %s", self._output, self._error)

    # --- one step --------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Writes what has come, if it is enough or has waited enough; whether it did."""
        end = self._source.end_seq()
        waiting = self._source.rows_after(self._seq)
        if waiting == 0:
            self._pass_over(end)
            return False
        if not self._is_due(waiting):
            self._stopping.wait(min(LOOK_S, self._writer.every_us / 1_000_000))
            return False
        self._waiting_since = None
        try:
            self._write(self._source.latest_seq(self._seq, self._writer.rows))
        except StreamNotFound:
            if self._writer.durable:
                raise
            self._seq = self._source.first_seq() - 1  # nobody keeps rows for a console
        return True

    def _pass_over(self, end_seq: int) -> None:
        """Segments without rows: there is nothing to write, and now and then to say so."""
        self._seq = end_seq
        if self._writer.durable and end_seq - self._acknowledged >= QUIET_SEGMENTS:
            self._acknowledge()
        self._source.wait_beyond(end_seq, LOOK_S)

    def _is_due(self, waiting: int) -> bool:
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        return waiting >= self._writer.rows or (now - self._waiting_since) * 1_000_000 >= self._writer.every_us

    def _write(self, to_seq: int) -> None:
        if self._source.rows_between(self._seq, to_seq) == 0:  # and then a segment that is too large to go with it
            self._seq = to_seq
            return
        self._writer.write(self._batches(to_seq))
        failpoints.reach("writer.written")
        self._seq = to_seq
        self._last_id = self._handed_id
        self._rows += self._handed_rows
        if self._writer.durable:
            self._acknowledge()

    def _acknowledge(self) -> None:
        with self._store.transaction() as transaction:
            transaction.acknowledge(self._source.name, self._reader, self._seq)
        self._acknowledged = self._seq

    def _batches(self, to_seq: int) -> Iterator[pa.RecordBatch]:
        """The tuples after the last one that is written, with their ids and origins."""
        self._handed_rows = 0
        for segment in self._source.read(self._seq, to_seq):
            batch = self._written(segment)
            if batch is not None and batch.num_rows:
                self._handed_id = batch.column(0)[-1].as_py()
                self._handed_rows += batch.num_rows
                yield batch

    def _written(self, segment: Segment) -> pa.RecordBatch | None:
        if segment.rows is None or segment.rows.num_rows == 0:
            return None
        skip = max(0, self._last_id + 1 - segment.first_id) if self._last_id else 0
        rows = segment.rows.slice(skip)
        first = segment.first_id + skip
        ids = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        names = pa.DictionaryArray.from_arrays(rows.column(ORIGIN), pa.array(self._source.spec.origins)).cast(
            pa.string()
        )
        columns = [ids, rows.column(TID), rows.column(STIME), names, *rows.columns[_STORED_HEADER:]]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    # --- finding the place -----------------------------------------------------------------------------------------

    def _place(self, found: Found) -> int:
        """The segment after which the writer goes on."""
        log = self._source
        known = log.readers().get(self._reader)
        if found.last_id == 0:
            return log.first_seq() - 1 if known is None else known
        if not self._is_ours(found, known=known is not None):
            raise StateError(
                f"{self.key} holds tuples of a different stream than {self._output!r} of this state directory.",
                remedy="Use a new target, or the state directory that it was written from.",
            )
        if found.last_id + 1 < log.first_id():
            raise StateError(
                f"{self.key} ends with tuple {found.last_id}, but the log begins with {log.first_id()}: the "
                "tuples between are gone.",
                remedy="Use a new target; it starts with what the log still holds.",
            )
        return log.seq_before_id(found.last_id + 1)

    def _refuse_replaced(self) -> None:
        replaced = json.loads(self._store.get(_REPLACED) or b"[]")
        if self.key in replaced and self._reader not in self._source.readers():
            raise StateError(
                f"This node was rebuilt from a peer, where the tuples of {self._output!r} have other ids: it is "
                f"unknown which of them {self.key} holds.",
                remedy="Use a new target; it starts with what the log still holds.",
            )

    def _is_ours(self, found: Found, *, known: bool) -> bool:
        log = self._source
        if found.incarnation is not None and found.incarnation != log.incarnation:
            return False
        if found.last_id > log.last_id():
            return False
        if found.identity is None:
            return found.incarnation is not None
        if found.last_id < log.first_id():
            return known  # it was read and acknowledged under this name
        return found.identity == self._identity(found.last_id)

    def _identity(self, last_id: int) -> tuple[int, int, str]:
        log = self._source
        segments = log.read(log.seq_before_id(last_id), log.end_seq())
        segment = next(
            each for each in segments if each.rows is not None and each.first_id + each.rows.num_rows > last_id
        )
        assert segment.rows is not None
        row = last_id - segment.first_id
        tid, stime, code = (segment.rows.column(name)[row] for name in (TID, STIME, ORIGIN))
        return tid.as_py(), stime.cast(pa.int64()).as_py(), log.spec.origins[code.as_py()]


class Writing:
    """All writers of a node."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._runners: dict[str, list[WriterRunner]] = {}

    def start(
        self,
        outputs: tuple[Output, ...],
        logs: Mapping[str, tuple[Store, Log]],
        session: Callable[[], Any] = lambda: None,
    ) -> None:
        """Opens every writer, then starts them. Readers of writers that are no longer named are forgotten.

        ``session`` gives the Spark of now. If one of them cannot be opened, none is, and it can be tried again.
        """
        try:
            for output in outputs:
                store, log = logs[output.name]
                _forget_others(output, store, log)
                self._runners[output.name] = [
                    WriterRunner(output.name, spec, tuple_writer(spec, store, log, session), store, log, self._stopping)
                    for spec in output.to
                ]
                for runner in self._runners[output.name]:
                    self._open(output.name, runner)
        except BaseException:
            self.stop()
            self._runners.clear()
            raise
        for runners in self._runners.values():
            for runner in runners:
                runner.start()

    def _open(self, output: str, runner: WriterRunner) -> None:
        try:
            runner.open()
        except OSError as error:
            raise ConfigError(
                f"The writer {runner.key} of output {output!r} cannot start: {error}.", remedy="Use another target."
            ) from error

    def stop(self) -> None:
        deadline = time.monotonic() + limits.STOP_WAIT_S
        for runners in self._runners.values():
            for runner in runners:
                runner.stop(deadline)

    def statistics(self) -> dict[str, dict[str, WriterStatus]]:
        return {
            name: {runner.key: runner.statistics() for runner in runners}
            for name, runners in self._runners.items()
            if runners
        }


def writer_readers(outputs: tuple[Output, ...], stream: str) -> frozenset[str]:
    """The readers of a stream that are writers of this node."""
    return frozenset(writer_reader(spec) for output in outputs if output.name == stream for spec in output.to)


def tuple_writer(spec: Writer, store: Store, log: Log, session: Callable[[], Any] = lambda: None) -> TupleWriter:
    match spec:
        case JsonLinesWriter():
            return JsonLinesFile(spec)
        case ParquetWriter():
            return ParquetFiles(spec, stream=log.name, incarnation=log.incarnation)
        case ConsoleWriter():
            return Console(spec, output=log.name)
        case TableWriter():
            return KeyedTable(spec, schema=written_schema(log.spec.schema), incarnation=log.incarnation)
        case SparkWriter():
            from anabranch.engine.writer import SparkTarget
            from anabranch.node.spark_writing import SparkTuples

            return SparkTuples(spec, SparkTarget(session, spec.format, dict(spec.options)), store, log)


def _forget_others(output: Output, store: Store, log: Log) -> None:
    """A writer that is named no more must not hold the log for ever."""
    named = {writer_reader(spec) for spec in output.to}
    others = {reader for reader in log.readers().keys() | log.cut_off() if reader.startswith(PREFIX)} - named
    if others:
        with store.transaction() as transaction:
            for reader in others:
                transaction.remove_reader(log.name, reader)

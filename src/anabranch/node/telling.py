"""Compares the copies of outputs that no node reads: each node adds up what it writes, and asks the others for theirs.

``core.telling`` decides. Of two nodes the one whose name comes first asks, so that a difference is found once. Who is
asked says what it has added up; nobody waits for anybody, and no row travels.

What is written is added up when its batch is in the log. A node that starts reads back the end of its log first, to
cover what its last run had written and not compared. Nothing that goes wrong here may hold up a batch or a start: the
output is not compared any more then, and who asks for it says so.

One thread asks. It touches no store, so a stop need not wait for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch import limits
from anabranch.core.digests import CopyDigests, TuplesDigested
from anabranch.core.identities import Header, Keys, times_of
from anabranch.core.telling import DigestsHeard, Event, Range, Telling, TellingState, Told
from anabranch.errors import AnabranchError, InvariantBroken, NodeUnreachable, StreamNotFound, check
from anabranch.model.punctuation import Punctuations
from anabranch.model.times import format_time
from anabranch.node.dialer import Dialer
from anabranch.node.digesting import Alarms, header_of, row_numbers
from anabranch.query.assigned import AssignedQuery
from anabranch.runtime.status import AlarmStatus, ComparedStatus
from anabranch.storage.codec import split, stored_schema
from anabranch.storage.log import Log

_log: Final = logging.getLogger(__name__)


class ComparedOutputs:
    """The outputs of a node that others make, too, and no node reads. Any thread may use it."""

    def __init__(self, part: AssignedQuery, dialer: Dialer) -> None:
        self._part = part
        self._dialer = dialer
        self._copies: dict[str, _OwnCopy] = {}
        self._stopping = threading.Event()

    def open(self, logs: Iterable[Log]) -> None:
        """Those of these logs that are compared, and not open yet. Nobody else uses them at the moment."""
        for log in logs:
            if log.name in self._part.compared and log.name not in self._copies:
                self._copies[log.name] = _OwnCopy(self._part.host, log)

    def start(self) -> None:
        """All are open: begins to ask."""
        if any(self._asks(stream) for stream in self._copies):
            threading.Thread(target=self._run, name="comparing outputs", daemon=True).start()

    def stop(self) -> None:
        """Asks nobody any more. A question under way is left to itself."""
        self._stopping.set()

    def written(self, stream: str, first_id: int, rows: pa.Table, promises: Punctuations) -> None:
        """These rows are in the log now, from this place on, and what it promises after them."""
        if stream in self._copies:
            self._copies[stream].written(first_id, rows, promises)

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        others = self._part.compared.get(stream, {})
        if asker not in others:
            known = ", ".join(sorted(others)) or "none"
            raise StreamNotFound(
                f"{asker!r} has no copy of {stream!r} to compare.", remedy=f"Those that have: {known}."
            )
        if stream not in self._copies:
            raise NodeUnreachable(f"Stream {stream!r} is not available yet: the node is starting.")
        return self._copies[stream].told(asked)

    def alarms(self) -> dict[str, AlarmStatus]:
        """Per stream of which copies differed: how often, and the latest."""
        told = {stream: copy.alarms.statistics() for stream, copy in list(self._copies.items())}
        return {stream: each for stream, each in told.items() if each.count}

    def statistics(self) -> dict[str, dict[str, ComparedStatus]]:
        """Per stream and copy that this node asks: how far the comparison is, per origin, and what hinders it."""
        return {stream: copy.statistics(self._asks(stream)) for stream, copy in list(self._copies.items())}

    def _asks(self, stream: str) -> list[str]:
        return sorted(other for other in self._part.compared[stream] if other > self._part.host)

    def _run(self) -> None:
        while not self._stopping.wait(limits.COMPARE_EVERY_S):
            for stream, copy in self._copies.items():
                for other in self._asks(stream):
                    if not self._stopping.is_set():
                        self._ask(copy, other, self._part.compared[stream][other])

    def _ask(self, copy: _OwnCopy, other: str, address: str) -> None:
        try:
            asked = copy.to_ask(other)
            if asked:
                told = self._dialer.client(other, address).digests(self._part.host, copy.stream, asked)
                copy.heard(other, told)
        except Exception as error:  # it is away, starting, or says nonsense: it is asked again in a second
            copy.failed(other, error)


class _OwnCopy:
    """What this node writes of an output, added up. Any thread may use it."""

    def __init__(self, node: str, log: Log) -> None:
        self.stream: Final = log.name
        self.alarms: Final = Alarms(log.name)
        self._origins = log.spec.origins
        self._schema = stored_schema(log.spec.schema)
        self._telling = Telling(node, self._origins)
        self._lock = threading.Lock()
        self._given_up: InvariantBroken | None = None
        self._errors: dict[str, str] = {}
        self._next_id = log.last_id() + 1
        self._state = TellingState(own=CopyDigests.began(times_of({}, self._origins)))
        with self._careful():
            self._read_back(log)

    def written(self, first_id: int, rows: pa.Table, promises: Punctuations) -> None:
        """Rows from this place of the log on, and what it promises after them."""
        if self._given_up is not None:
            return
        with self._careful():
            check(first_id == self._next_id, f"Row {self._next_id - 1} is followed by row {first_id}.")
            self._next_id += rows.num_rows
            self._add(split(rows, self._schema), promises)

    def to_ask(self, other: str) -> dict[str, Range]:
        self._check()
        return self._telling.to_ask(self._state, other)

    def told(self, asked: Mapping[str, Range]) -> dict[str, Told]:
        self._check()
        return self._telling.told(self._state, asked)

    def heard(self, other: str, told: Mapping[str, Told]) -> None:
        self._handle(DigestsHeard(copy=other, told=told))
        self._errors.pop(other, None)

    def failed(self, other: str, error: Exception) -> None:
        if self._errors.get(other) is None:
            told = _log.info if isinstance(error, AnabranchError) else _log.exception
            told("%s is not compared with the copy on %s: %s", self.stream, other, error)
        self._errors[other] = str(error) or repr(error)

    def statistics(self, others: Iterable[str]) -> dict[str, ComparedStatus]:
        compared = self._state.compared
        return {
            other: ComparedStatus(
                compared={
                    origin: format_time(int(interval) * limits.DIGEST_INTERVAL_US)
                    for origin, interval in zip(self._origins, compared.get(other, ()), strict=False)
                    if interval
                },
                error=self._errors.get(other),
            )
            for other in others
        }

    def _read_back(self, log: Log) -> None:
        """The end of what earlier runs have written. What lies before it is left out, with all of its times."""
        seq = log.seq_before_last(limits.COMPARE_BACK_ROWS, limits.COMPARE_BACK_BYTES)
        tops = log.tops(seq)
        floors = {origin: top + 1 for origin, top in tops.items()}
        self._state = TellingState(own=CopyDigests.began(times_of(floors, self._origins)))
        for segment in log.read(seq, log.end_seq()):
            self._add([] if segment.rows is None else [segment.rows], segment.punctuations)
        self._add([], log.punctuations())

    def _add(self, batches: Iterable[pa.RecordBatch], promises: Punctuations) -> None:
        for batch in batches:
            header = header_of(batch)
            self._digested(header, row_numbers(batch, header), {})
        self._digested(header_of(None), np.empty(0, np.uint64), promises)

    def _digested(self, header: Header, numbers: Keys, promises: Punctuations) -> None:
        times = times_of(promises, self._origins)
        self._handle(TuplesDigested(copy=self._telling.own, header=header, numbers=numbers, promises=times))

    def _handle(self, event: Event) -> None:
        with self._lock:
            self._state, alarms = self._telling.handle(self._state, event)
        self.alarms.raise_all(alarms)

    @contextmanager
    def _careful(self) -> Iterator[None]:
        """Whatever happens in it ends the comparison, and nothing else."""
        try:
            yield
        except Exception as error:
            _log.exception("%s is no longer compared", self.stream)
            self._given_up = InvariantBroken(
                f"{self.stream} is no longer compared: its digest could not be computed: {error!r}.",
                remedy="Restart the node, and report this.",
            )

    def _check(self) -> None:
        if self._given_up is not None:
            raise self._given_up

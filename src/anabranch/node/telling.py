"""Compares the copies of outputs that no node reads: each node adds up its own log, and asks the others for theirs.

``core.telling`` decides. Of two nodes the one whose name comes first asks, so that a difference is found once. Who is
asked says what it has added up; nobody waits for anybody, and no row travels.

One thread, a second behind what is written. It reads the log as anyone does, so a batch costs no more; if the log
forgets something before it was read, the copy is added up anew from there on. After a start it begins a little before
the end, to cover what the last run of the node had written and not compared.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from anabranch import limits
from anabranch.core.digests import CopyDigests, TuplesDigested
from anabranch.core.identities import times_of
from anabranch.core.telling import DigestsHeard, Event, Range, Telling, TellingState, Told
from anabranch.errors import AnabranchError, NodeUnreachable, StreamNotFound
from anabranch.model.times import format_time
from anabranch.node.digesting import Alarms, header_of, row_numbers
from anabranch.node.neighbours import Neighbours
from anabranch.node.part import Part
from anabranch.storage.log import Log

_log: Final = logging.getLogger(__name__)

STOP_S: Final = 2.0
"""How long a stop waits for the question under way."""


class ComparedOutputs:
    """The outputs of a node that others make, too, and no node reads. Any thread may ask it."""

    def __init__(self, part: Part, neighbours: Neighbours) -> None:
        self._part = part
        self._neighbours = neighbours
        self._copies: dict[str, _OwnCopy] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="comparing outputs", daemon=True)

    def start(self, logs: Iterable[Log]) -> None:
        for log in logs:
            self._copies[log.name] = _OwnCopy(self._part.node, log)
        if self._copies:
            self._thread.start()

    def close(self) -> None:
        """Asks no more. A question under way is left to itself; no log is read after this."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        others = self._part.compared.get(stream, {})
        if asker not in others:
            known = ", ".join(sorted(others)) or "none"
            raise StreamNotFound(
                f"{asker!r} has no copy of {stream!r} to compare.", remedy=f"Those that have: {known}."
            )
        if stream not in self._copies:
            raise NodeUnreachable(f"Stream {stream!r} is not there yet: the node is starting.")
        return self._copies[stream].told(asked)

    def alarms(self) -> dict[str, Any]:
        """Per stream of which copies differed: how often, and the latest."""
        told = {stream: copy.alarms.statistics() for stream, copy in list(self._copies.items())}
        return {stream: each for stream, each in told.items() if each["count"]}

    def statistics(self) -> dict[str, Any]:
        """Per stream and copy that this node asks: up to which time it was compared, per origin, and what hinders."""
        return {stream: copy.statistics(self._asks(stream)) for stream, copy in list(self._copies.items())}

    def _asks(self, stream: str) -> list[str]:
        return sorted(other for other in self._part.compared[stream] if other > self._part.node)

    def _run(self) -> None:
        while not self._stopping.wait(limits.COMPARE_EVERY_S):
            for stream, copy in self._copies.items():
                copy.add_up(self._stopping.is_set)
                for other in self._asks(stream):
                    if not self._stopping.is_set():
                        self._ask(copy, other, self._part.compared[stream][other])

    def _ask(self, copy: _OwnCopy, other: str, address: str) -> None:
        asked = copy.to_ask(other)
        if not asked:
            return
        try:
            told = self._neighbours.client(other, address).digests(self._part.node, copy.stream, asked)
            copy.heard(other, told)
        except AnabranchError as error:  # it is away, or starting: asked again in a second
            copy.failed(other, error)


class _OwnCopy:
    """A log, added up as far as it was read. One thread reads and compares; any may ask what was told."""

    def __init__(self, node: str, log: Log) -> None:
        self._log = log
        self._telling = Telling(node, log.spec.origins)
        self._seq, floors = self._place()
        self._state = TellingState(own=CopyDigests.began(floors))
        self._errors: dict[str, str] = {}
        self.alarms: Final = Alarms(log.name)

    @property
    def stream(self) -> str:
        return self._log.name

    def add_up(self, stopping: Callable[[], bool]) -> None:
        """What was written since the last time."""
        try:
            for segment in self._log.read(self._seq, self._log.end_seq()):
                header = header_of(segment.rows)
                numbers = np.empty(0, np.uint64) if segment.rows is None else row_numbers(segment.rows, header)
                promises = times_of(segment.punctuations, self._log.spec.origins)
                self._handle(TuplesDigested(copy=self._telling.own, header=header, numbers=numbers, promises=promises))
                self._seq = segment.seq
                if stopping():
                    return
        except StreamNotFound:  # forgotten before it was read
            self._seq, floors = self._place()
            self._state = self._state.began(floors)

    def to_ask(self, other: str) -> dict[str, Range]:
        return self._telling.to_ask(self._state, other)

    def told(self, asked: Mapping[str, Range]) -> dict[str, Told]:
        return self._telling.told(self._state, asked)

    def heard(self, other: str, told: Mapping[str, Told]) -> None:
        self._errors.pop(other, None)
        self._handle(DigestsHeard(copy=other, told=told))

    def failed(self, other: str, error: AnabranchError) -> None:
        if self._errors.get(other) != str(error):
            _log.info("%s is not compared with the copy of %s: %s", self.stream, other, error)
        self._errors[other] = str(error)

    def statistics(self, others: Iterable[str]) -> dict[str, Any]:
        compared = self._state.compared
        return {
            other: {
                "compared": {
                    origin: format_time(int(interval) * limits.DIGEST_INTERVAL_US)
                    for origin, interval in zip(self._log.spec.origins, compared.get(other, ()), strict=False)
                    if interval
                },
                "error": self._errors.get(other),
            }
            for other in others
        }

    def _handle(self, event: Event) -> None:
        self._state, alarms = self._telling.handle(self._state, event)
        self.alarms.raise_all(alarms)

    def _place(self) -> tuple[int, np.ndarray]:
        """After which segment to read, and from which times on everything comes then."""
        origins = self._log.spec.origins
        recent = {origin: max(0, time - limits.COMPARE_BACK_US) for origin, time in self._log.punctuations().items()}
        seq = self._log.seq_before_times(recent)
        return seq, np.maximum(times_of(recent, origins), times_of(self._log.floors(), origins))

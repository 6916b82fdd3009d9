"""What a part of a query reports of its slowest origin, and what those who read it have reported: the two ends of the
horizon (``core.horizon``) on a host.

An entry point asks here whether rows may enter. What it is told comes from the parts that read its sources, with their
acknowledgements; stages that read a source in the same part know it at once, from its log. Without a horizon in the
query nothing is reported, and nobody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Final

from anabranch.core.horizon import UNKNOWN, Horizon, Slowest, slowest_of
from anabranch.core.output import held_back_us
from anabranch.model.names import part_named, replica_reader
from anabranch.model.punctuation import Punctuations
from anabranch.query.assigned import AssignedQuery
from anabranch.runtime.reader_reports import ReaderReports
from anabranch.storage.log import Log
from anabranch.storage.store import Store


class PartReports:
    """``logs`` has the logs and journals of the part as soon as they are open. Any thread may use it."""

    def __init__(self, part: AssignedQuery, logs: Mapping[str, tuple[Store, Log]]) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._own: Final = replica_reader(part.reader)
        self._is_used: Final = any(source.horizon_us is not None for source in part.diagram.sources)
        outside = {stream: _fragments(readers) for stream, readers in part.readers.items()} if self._is_used else {}
        self._inputs: Final = {
            stream: tuple(sorted(origins))
            for stream, origins in part.origins().items()
            if stream in part.upstream or (stream in part.entries and _reads(part, stream))
        }
        """Per stream that comes into the part from outside of its stages, the origins that it can have."""
        held_us = held_back_us(part.diagram)
        self._passed_on = ReaderReports({name: Horizon(0, read, held_us) for name, read in outside.items() if read})
        self._entering = ReaderReports(
            {
                source.name: Horizon(
                    source.horizon_us,
                    (*outside.get(source.name, ()), *([(self._own,)] if source.name in self._inputs else [])),
                    held_us,
                )
                for source in part.diagram.sources
                if source.name in part.entries and source.horizon_us is not None
            }
        )

    def told(self, reader: str, slowest: Slowest) -> None:
        """A part that reads this one has told how far its slowest origin is."""
        with self._lock:
            self._passed_on.told(reader, slowest)
            self._entering.told(reader, slowest)

    def slowest(self) -> Slowest:
        """What this part tells those that it reads; unknown while one of its streams is not open."""
        if not self._is_used or not self._inputs.keys() <= self._logs.keys():
            return UNKNOWN
        with self._lock:
            return slowest_of(self._promised(), self._passed_on.to_pass_on())

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane of the source that has promised ``promised_us`` so far."""
        own = self.slowest()
        with self._lock:
            self._entering.told(self._own, own)
            return self._entering.may_enter(source, promised_us, latest_us)

    def waits_for(self, source: str) -> Slowest:
        """How far the slowest origin is for all who read the source."""
        with self._lock:
            return self._entering.slowest(source)

    def _promised(self) -> Iterator[tuple[tuple[str, ...], Punctuations]]:
        for stream, origins in self._inputs.items():
            yield origins, self._logs[stream][1].punctuations()


def _fragments(readers: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The replicas that read a stream, by what they run. A part without stages only writes, and nothing waits there."""
    found: dict[str, list[str]] = {}
    for reader in readers:
        if part_named(reader):
            found.setdefault(part_named(reader), []).append(replica_reader(reader))
    return tuple(map(tuple, found.values()))


def _reads(part: AssignedQuery, stream: str) -> bool:
    return any(stream in stage.inputs for stage in part.stages)

"""The reports of a part of a query (``runtime/part_reports.py``) on a host: from its logs, for any thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.core.output import held_back_us
from anabranch.model.names import part_named, replica_reader
from anabranch.model.punctuation import Punctuations
from anabranch.query.assigned import AssignedQuery
from anabranch.runtime import part_reports
from anabranch.storage.log import Log
from anabranch.storage.store import Store


class PartReports:
    """``logs`` has the logs and journals of the part as soon as they are open. Without a horizon in the query nothing
    is reported, and nobody waits."""

    def __init__(self, part: AssignedQuery, logs: Mapping[str, tuple[Store, Log]]) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._is_used: Final = any(source.horizon_us is not None for source in part.diagram.sources)
        self._reports: Final = part_reports.PartReports(
            replica_reader(part.reader),
            inputs={
                stream: tuple(sorted(origins))
                for stream, origins in part.origins().items()
                if stream in part.upstream or (stream in part.entries and _reads(part, stream))
            },
            promised=self._promised,
            readers={stream: _fragments(readers) for stream, readers in part.readers.items()} if self._is_used else {},
            horizons_us={
                source.name: source.horizon_us
                for source in part.diagram.sources
                if source.name in part.entries and source.horizon_us is not None
            },
            held_back_us=held_back_us(part.diagram),
        )

    def told(self, reader: str, slowest: Slowest) -> None:
        """A part that reads this one has told how far its slowest origin is."""
        with self._lock:
            self._reports.told(reader, slowest)

    def slowest(self) -> Slowest:
        """What this part tells those that it reads; unknown while one of its streams is not open."""
        if not self._is_used:
            return UNKNOWN
        with self._lock:
            return self._reports.slowest()

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane of the source that has promised ``promised_us`` so far."""
        with self._lock:
            return self._reports.may_enter(source, promised_us, latest_us)

    def waits_for(self, source: str) -> Slowest:
        """How far the slowest origin is for all who read the source."""
        with self._lock:
            return self._reports.waits_for(source)

    def _promised(self, stream: str) -> Punctuations | None:
        known = self._logs.get(stream)
        return None if known is None else known[1].punctuations()


def _fragments(readers: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The replicas that read a stream, by what they run. A part without stages only writes, and nothing waits there."""
    found: dict[str, list[str]] = {}
    for reader in readers:
        if part_named(reader):
            found.setdefault(part_named(reader), []).append(replica_reader(reader))
    return tuple(map(tuple, found.values()))


def _reads(part: AssignedQuery, stream: str) -> bool:
    return any(stream in stage.inputs for stage in part.stages)

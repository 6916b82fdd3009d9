"""How far the slowest origin is for those that read the streams of a part, as they report it with acknowledgements.

An entry point holds rows back by it (``core.horizon``), and every other part passes it on to those that it reads. It is
forgotten when the part ends: readers report again when they have found the part again, and what has not been reported
holds nobody up. One event at a time: whoever calls sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.core.horizon import Horizon, Slowest, Told


class ReaderReports:
    """``horizons`` has the rule of each stream that fragments read. Where no horizon is set, nothing is reported."""

    def __init__(self, horizons: Mapping[str, Horizon]) -> None:
        self._horizons: Final = horizons
        self.forget()

    def forget(self) -> None:
        self._told = Told()

    def told(self, reader: str, slowest: Slowest) -> None:
        """With an acknowledgement of any stream."""
        if self._horizons:
            self._told = self._told.heard(reader, slowest)

    def slowest(self, stream: str) -> Slowest:
        """What all who read the stream have heard of all origins."""
        return self._horizons[stream].slowest(self._told)

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane of the source that has promised ``promised_us`` so far."""
        return self._horizons[source].may_enter(self._told, promised_us, latest_us)

    def to_pass_on(self) -> list[Slowest]:
        """What the fragments that read this part have reported, stream by stream."""
        return [self.slowest(stream) for stream in self._horizons]

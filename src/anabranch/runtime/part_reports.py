"""What a part of a query reports of its slowest origin, and what those who read it have reported: the two ends of the
horizon (``core.horizon``).

An entry point asks here whether rows may enter. What it is told comes from the parts that read its sources, with their
acknowledgements; stages that read a source in the same part know it at once, from its log. One event at a time: whoever
calls sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from anabranch.core.horizon import UNKNOWN, Horizon, Slowest, slowest_of
from anabranch.model.punctuation import Punctuations
from anabranch.runtime.reader_reports import ReaderReports

Fragments = tuple[tuple[str, ...], ...]


class PartReports:
    """``own`` is what the part is called where it reads. ``inputs`` has the streams that come into it from outside of
    its stages, with the origins that they can have; ``promised`` what such a stream promises, None while it
    is not open.
    ``readers`` are the fragments that read each of its streams, each as its replicas, and ``horizons_us`` the horizons
    of the sources that enter here. Without ``passes_on``, nobody hears of what its readers report."""

    def __init__(
        self,
        own: str,
        *,
        inputs: Mapping[str, Sequence[str]],
        promised: Callable[[str], Punctuations | None],
        readers: Mapping[str, Fragments],
        horizons_us: Mapping[str, int],
        held_back_us: int,
        rule: type[Horizon] = Horizon,
        passes_on: bool = True,
    ) -> None:
        self._own: Final = own
        self._inputs: Final = inputs
        self._promised: Final = promised
        passed_on = {stream: rule(0, read, held_back_us) for stream, read in readers.items() if read and passes_on}
        self._passed_on: Final = ReaderReports(passed_on)
        self._entering: Final = ReaderReports(
            {
                source: rule(
                    horizon_us, (*readers.get(source, ()), *([(own,)] if source in inputs else [])), held_back_us
                )
                for source, horizon_us in horizons_us.items()
            }
        )

    def forget(self) -> None:
        self._passed_on.forget()
        self._entering.forget()

    def told(self, reader: str, slowest: Slowest) -> None:
        """A part that reads this one has told how far its slowest origin is."""
        self._passed_on.told(reader, slowest)
        self._entering.told(reader, slowest)

    def slowest(self) -> Slowest:
        """What this part tells those that it reads; unknown while one of its streams is not open."""
        own: list[tuple[Sequence[str], Punctuations]] = []
        for stream, origins in self._inputs.items():
            promised = self._promised(stream)
            if promised is None:
                return UNKNOWN
            own.append((origins, promised))
        return slowest_of(own, self._passed_on.to_pass_on())

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane of the source that has promised ``promised_us`` so far."""
        if source in self._inputs:
            self._entering.told(self._own, self.slowest())
        return self._entering.may_enter(source, promised_us, latest_us)

    def waits_for(self, source: str) -> Slowest:
        """How far the slowest origin is for all who read the source."""
        return self._entering.slowest(source)

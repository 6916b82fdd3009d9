"""One performance of the demo on a running node: its clients, what can be seen meanwhile, and the end.

Must not know how it is shown: whoever plays it is called a few times a second and may look.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from anabranch.demo.clients import Reader, Servers
from anabranch.demo.scenario import BUSY, NETWORK, SERVERS, Scenario
from anabranch.demo.summary import MEDIAN, Summary, percentile, summarize
from anabranch.node.node import Node
from anabranch.transport.session import connect

LOOK_S: Final = 0.2
RECENT: Final = 50
"""How many of an output's latest results make "now"."""

CATCH_UP_S: Final = 15.0
"""How long the end waits for results of what was pushed."""


class Play:
    """Use it as a context manager, and ``run`` it once."""

    def __init__(self, node: Node, scenario: Scenario) -> None:
        self.scenario: Final = scenario
        self._node = node
        self._connection = connect(node.address)
        self.servers: Final = Servers(node.address, scenario)
        self.readers: Final = {name: Reader(self._connection, name, self.servers) for name in (NETWORK, BUSY)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self.readers.values():
            reader.stop()
        self._connection.close()

    def run(self, look: Callable[[Play], None], stopped: Callable[[], bool]) -> None:
        """Until the story is over or someone has enough of it, and what was pushed has come out."""
        self.servers.start()
        try:
            while not self.servers.is_done and not stopped():
                self._check()
                look(self)
                time.sleep(LOOK_S)
        finally:
            self.servers.stop()
        self._check()
        self._wait_results()
        look(self)

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since the first push, until the last."""
        return (self.servers.ended if self.servers.is_done else time.time()) - self.servers.began

    @property
    def rows_in(self) -> int:
        return sum(self.servers.rows.values())

    @property
    def rows_out(self) -> int:
        return sum(reader.rows for reader in self.readers.values())

    @property
    def latency_now_s(self) -> float | None:
        """The median of what came last."""
        recent = sorted(pair for reader in self.readers.values() for pair in reader.latencies[-RECENT:])
        return percentile([late for _, late in recent[-RECENT:]], MEDIAN)

    @property
    def latencies(self) -> list[tuple[float, float]]:
        return sorted(pair for reader in self.readers.values() for pair in list(reader.latencies))

    def found(self, output: str) -> dict[str, int]:
        """How many slow pings to each server came out there."""
        counted = Counter(list(self.readers[output].pings.values()))
        return {server: counted[server] for server in SERVERS}

    def happening(self) -> str:
        """What goes wrong at the moment."""
        return ", ".join(phase.words for phase in self.scenario.phases if phase.has(self.seconds)) or "all is well"

    def summary(self) -> Summary:
        return summarize(
            self.scenario,
            seconds=self.seconds,
            rows_in=self.servers.rows,
            rows_out={name: reader.rows for name, reader in self.readers.items()},
            slow=self.servers.slow,
            found={name: reader.pings.keys() for name, reader in self.readers.items()},
            latencies_s=[late for _, late in self.latencies],
        )

    # --- the end ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        errors = [self._node.failure(), self.servers.error, *(reader.error for reader in self.readers.values())]
        for error in errors:
            if error is not None:
                raise error

    def _wait_results(self) -> None:
        deadline = time.monotonic() + CATCH_UP_S
        self._node.wait_caught_up(CATCH_UP_S)
        for name, reader in self.readers.items():
            logged = self._node.stream(name).last_id
            while reader.last_id < logged and reader.error is None and time.monotonic() < deadline:
                time.sleep(0.02)

"""The clients of the demo's node: the servers, which push what they report, and a reader of each output.

They are threads, because they play programs of their own: they talk with the node over Flight, as any client does.
A latency is measured by one clock, from just before the push of the later of the two rows that a result is made of
until the result is handed out by the subscription.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from anabranch.demo.scenario import TURNS_PER_SECOND, Ping, Scenario
from anabranch.model.header import KIND, Kind
from anabranch.transport.session import Connection, connect

US: Final = 1_000_000


class Servers:
    """Pushes the turns of the scenario, each when it is due. ``error`` is why it ended early, if it did."""

    def __init__(self, address: str, scenario: Scenario) -> None:
        self.rows: Final = {"load": 0, "ping": 0}
        self.loads: Final[dict[str, float]] = {}
        self.slow: Final[list[Ping]] = []
        self.pushed: Final[dict[int, float]] = {}
        """When the rows of a moment were pushed; the moment as rows have it, in microseconds."""
        self.error: BaseException | None = None
        self.began = self.ended = time.time()
        self._address = address
        self._scenario = scenario
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="servers", daemon=True)

    def start(self) -> None:
        self.began = time.time()
        self._thread.start()

    def stop(self) -> None:
        """Returns when no more is pushed."""
        self._stop.set()
        self._thread.join()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            with connect(self._address) as node:
                for turn in range(self._scenario.turns):
                    if self._stop.wait(max(0.0, began + turn / TURNS_PER_SECOND - time.monotonic())):
                        break
                    self._report(node)
        except BaseException as error:  # told by the thread that looks
            self.error = error
        finally:
            self.ended = time.time()

    def _report(self, node: Connection) -> None:
        turn = self._scenario.next_turn()
        at_us = round(self.began * US) + round(turn.at_s * US)  # exactly as far apart as the scenario has them
        self.loads.update(turn.loads)
        self.slow.extend(ping for ping in turn.pings if ping.cause is not None)
        self.pushed[at_us] = time.time()
        self._push(node, "load", [{"server": name, "cpu": cpu, "at": at_us} for name, cpu in turn.loads.items()])
        columns = ("n", "source", "target", "rtt_ms")
        pings = [{name: getattr(ping, name) for name in columns} | {"sent": at_us} for ping in turn.pings]
        self._push(node, "ping", pings)

    def _push(self, node: Connection, source: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            self.rows[source] += node.push(source, rows).rows


class Reader:
    """What comes out of one output: which pings, and how late."""

    def __init__(self, node: Connection, output: str, servers: Servers) -> None:
        self.output: Final = output
        self.rows = 0
        self.pings: Final[dict[int, str]] = {}
        """The target of each ping that came, by the ping's number."""
        self.latencies: Final[list[tuple[float, float]]] = []
        """When the rows were pushed, in seconds since the first push, and how many seconds later the result came."""
        self.error: BaseException | None = None
        self._servers = servers
        self._subscription = node.subscribe(output, start="start")
        self._thread = threading.Thread(target=self._run, name=output, daemon=True)
        self._thread.start()

    @property
    def last_id(self) -> int:
        position = self._subscription.position
        return 0 if position is None else position.id

    def stop(self) -> None:
        self._subscription.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            for batch in self._subscription:
                now = time.time()
                self._take([row for row in batch.to_pylist() if row[KIND] == Kind.INSERTION], now)
        except BaseException as error:  # told by the thread that looks
            self.error = error

    def _take(self, rows: list[dict[str, Any]], now: float) -> None:
        pushed = self._servers.pushed
        for row in rows:
            self.pings[row["n"]] = row["target"]
            last = max(pushed[round(row[column].timestamp() * US)] for column in ("sent", "at"))
            self.latencies.append((last - self._servers.began, now - last))
        self.rows += len(rows)

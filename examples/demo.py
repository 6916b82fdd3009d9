"""The query of slow_paths.py on generated input, for half a minute: what came out, and how late.

Run it with ``make demo``. A node runs in this process on a temporary state directory; one thread pushes pings and the
load of servers, one thread reads each output.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import anabranch as ab
from anabranch.engine.session import close_session
from anabranch.query.files import load

SECONDS = 30
PINGS_PER_SECOND = 200
PUSHES_PER_SECOND = 10
SERVERS = [f"server{number}" for number in range(20)]
SEED = 7
OUTPUTS = ("network_problems", "slow_per_target")

console = Console(highlight=False)


class Generator(threading.Thread):
    """Pushes pings, some of them slow, and the load of every server once a second. The same input for the same seed."""

    def __init__(self, address: str, stop: threading.Event) -> None:
        super().__init__(name="generator", daemon=True)
        self.rows = {"ping": 0, "load": 0}
        self._address = address
        self._ended = stop
        self._random = random.Random(SEED)

    def run(self) -> None:
        began = time.monotonic()
        with ab.connect(self._address) as node:
            for turn in range(SECONDS * PUSHES_PER_SECOND):
                if turn % PUSHES_PER_SECOND == 0:
                    self._push(node, "load", [self._load(server) for server in SERVERS])
                self._push(node, "ping", [self._ping() for _ in range(PINGS_PER_SECOND // PUSHES_PER_SECOND)])
                if self._ended.wait(max(0, began + (turn + 1) / PUSHES_PER_SECOND - time.monotonic())):
                    return

    def _push(self, node: ab.Connection, source: str, rows: list[dict[str, object]]) -> None:
        self.rows[source] += node.push(source, rows).rows

    def _load(self, server: str) -> dict[str, object]:
        return {"server": server, "cpu": round(self._random.betavariate(2, 2), 3)}

    def _ping(self) -> dict[str, object]:
        source, target = self._random.sample(SERVERS, 2)
        return {"source": source, "target": target, "rtt_ms": round(self._random.expovariate(1 / 300), 1)}


@dataclass
class Reader:
    """What came out of one output, and how long after its stream time each row was read."""

    output: str
    subscription: ab.Subscription
    rows: int = 0
    sample: list[dict[str, object]] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)

    def read(self) -> None:
        for batch in self.subscription:
            now = time.time()
            for row in batch.to_pylist():
                if row["_kind"] == ab.Kind.INSERTION:
                    self.rows += 1
                    self.latencies_s.append(now - row["_stime"].timestamp())
                    self.sample = [*self.sample[-2:], row]


def main() -> int:
    query = load(Path(__file__).with_name("slow_paths.py"))
    began = time.monotonic()
    stop = threading.Event()

    def progress(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:5.1f} s[/]  {text}")

    try:
        with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as state:
            with ab.Node(query, state, progress=progress) as node:
                generator, readers = feed_and_read(node, stop)
                node.wait_caught_up(10)
                time.sleep(0.5)  # what was logged last is on its way to the readers
                for reader in readers:
                    reader.subscription.close()
            report(generator, readers)
        return 0
    except KeyboardInterrupt:
        stop.set()
        console.print("stopped")
        return 130
    finally:
        close_session()


def feed_and_read(node: ab.Node, stop: threading.Event) -> tuple[Generator, list[Reader]]:
    """Half a minute of input, with the outputs read all the time."""
    connection = ab.connect(node.address)
    readers = [Reader(output, connection.subscribe(output, start="start")) for output in OUTPUTS]
    for reader in readers:
        threading.Thread(target=reader.read, name=reader.output, daemon=True).start()
    generator = Generator(node.address, stop)
    generator.start()
    console.print(f"pushing {PINGS_PER_SECOND} pings a second for {SECONDS} s ...")
    with console.status("") as line:
        while generator.is_alive():
            out = ", ".join(f"{reader.output} {reader.rows:,}" for reader in readers)
            line.update(f"in: ping {generator.rows['ping']:,}, load {generator.rows['load']:,}   out: {out}")
            generator.join(0.2)
    return generator, readers


def report(generator: Generator, readers: list[Reader]) -> None:
    table = Table("stream", "rows", "latency, median", "95 %")
    for name, rows in generator.rows.items():
        table.add_row(f"in: {name}", f"{rows:,}", "", "")
    for reader in readers:
        late = sorted(reader.latencies_s) or [0.0]
        median, high = statistics.median(late), late[int(len(late) * 0.95)]
        table.add_row(f"out: {reader.output}", f"{reader.rows:,}", f"{median:.2f} s", f"{high:.2f} s")
    console.print(table)
    console.print("Latency is the time from a row's stream time (of a window: its end) until it was read here.\n")
    for reader in readers:
        console.print(f"the last rows of {reader.output}:")
        for row in reader.sample:
            columns = {name: value for name, value in row.items() if not name.startswith("_")}
            console.print(f"  {row['_stime']:%H:%M:%S.%f}  {columns}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())

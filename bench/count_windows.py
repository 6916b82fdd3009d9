"""What a micro-batch of count windows costs beside one of time windows, at a steady 1000 rows a second.

Both are sums over 1000 keys on a node of this process, measured by turns after a first turn that only warms the JVM.
``python bench/count_windows.py [ROUNDS]`` writes JSON: the median of each, of every round, and where its time went.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from anabranch.bench.engine import _parts, batch_milliseconds
from anabranch.bench.sides import CONF, Ours
from anabranch.bench.workloads import FLOW_PUSHES_S, OUTPUT, Rows, Workload, window_sum
from anabranch.engine.session import close_session
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query

WARM_ROWS, WARM_S, FLOW_S = 20_000, 2.0, 4.0


def count_sum() -> Diagram:
    query = Query("count_sum")
    events = query.source("events", "n bigint, key bigint, value bigint, weight double, at timestamp", time="at")
    query.output(OUTPUT, events.aggregate("sum(value) AS total", by="key", rows=10, name="sums"))
    return query.checked()


def measure(diagram: Diagram) -> tuple[float, dict[str, float]]:
    """Milliseconds of a micro-batch, and of its parts."""
    workload = Workload("flow", diagram, 1.0, lambda _: 0)
    with tempfile.TemporaryDirectory() as directory, Ours(workload, Path(directory) / "node", CONF) as side:
        rows = Rows(workload)
        side.feed(rows.backlog(WARM_ROWS))
        flow(side, rows, WARM_S)
        last, held_ms = max(batch.batch_id for batch in side.batches()), side.held_ms()
        flow(side, rows, FLOW_S)
        batches = [batch for batch in side.batches() if batch.batch_id > last]
        held_ms = side.held_ms() - held_ms
        return batch_milliseconds(batches, held_ms), _parts(batches, held_ms)


def flow(side: Ours, rows: Rows, seconds: float) -> None:
    began = time.monotonic()
    for number, pieces in enumerate(rows.flow(seconds)):
        time.sleep(max(0.0, began + number / FLOW_PUSHES_S - time.monotonic()))
        side.feed(pieces)
    if not side._running().wait_caught_up(60):
        raise SystemExit(f"the node does not catch up: {side._running().statistics()['stages']}")


def main(rounds: int) -> None:
    kinds = {"time windows": window_sum(), "count windows": count_sum()}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    parts: dict[str, dict[str, float]] = {}
    for number in range(rounds + 1):
        for name in sorted(kinds, reverse=number % 2 == 0):
            ms, parts[name] = measure(kinds[name])
            found[name] += [round(ms, 1)] if number else []
            print(f"round {number}, {name}: {ms:.0f} ms", file=sys.stderr, flush=True)
    medians = {name: median(values) for name, values in found.items()}
    results = {
        "command": f"python bench/count_windows.py {rounds}",
        "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
        "machine": {"processors": os.cpu_count(), "load": os.getloadavg()[0]},
        "milliseconds of a micro-batch at 1000 rows/s": medians,
        "ratio": round(medians["count windows"] / medians["time windows"], 2),
        "each round": found,
        "parts in the last round": parts,
    }
    print(json.dumps(results, indent=2))
    close_session()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

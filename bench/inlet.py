"""How many rows a second an inlet takes from two copies of a stream, into a journal that is synced at every commit.

Both copies bring the same rows, in turn, the second a little behind the first and in another order within a piece, so
that every row is looked up and half of them pass. ``python bench/inlet.py [ROWS]``; prints one line as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch import limits
from anabranch.bench.report import commit, machine
from anabranch.core.inlet import CopyAnswered
from anabranch.node.inlet import JournalInlet
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

ORIGINS = ("events/0", "events/1")
PIECE = limits.SEGMENT_ROWS
SCHEMA = pa.schema([("n", pa.int64()), ("key", pa.int64()), ("value", pa.int64()), ("weight", pa.float64())])
BOUND_ROWS_S = 500_000


def piece(number: int) -> pa.RecordBatch:
    n = np.arange(number * PIECE, (number + 1) * PIECE, dtype=np.int64)
    return pa.record_batch(
        {
            "_tid": n,
            "_stime": pa.array(1_767_225_600_000_000 + n * 100).cast(pa.timestamp("us", "UTC")),
            "_origin": (n % len(ORIGINS)).astype(np.int32),
            "n": n,
            "key": n % 1_000,
            "value": n * 7_919 % 1_000,
            "weight": (n % 97) / 97.0,
        }
    )


def main(rows: int) -> int:
    pieces = [piece(number) for number in range(rows // PIECE)]
    order = pa.array(np.random.default_rng(1).permutation(PIECE))
    others = [each.take(order) for each in pieces]
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(Path(directory) / "s.db")
        spec = LogSpec(
            name="s", schema=SCHEMA, origins=ORIGINS, kind="journal", retention_us=1 << 60, limit_bytes=1 << 40
        )
        inlet = JournalInlet(store, store.create_log(spec), clock=lambda: 0)
        for copy in ("first", "second"):
            inlet.answered(CopyAnswered(copy=copy, incarnation="i", first_id=1, floors={}))
        began = time.monotonic()
        for number in range(len(pieces) + 1):
            if number < len(pieces):
                inlet.arrived("first", "i", number * PIECE + 1, pieces[number], {})
            if number > 0:
                promised = dict.fromkeys(ORIGINS, 1_767_225_600_000_000 + number * PIECE * 100)
                inlet.arrived("second", "i", (number - 1) * PIECE + 1, others[number - 1], promised)
        took_s = time.monotonic() - began
        held = store.log("s").last_id()
        store.close()
    rows_s = 2 * len(pieces) * PIECE / took_s
    ok = rows_s >= BOUND_ROWS_S and held == len(pieces) * PIECE
    print(
        json.dumps(
            {
                "name": "inlet, two copies, journal included",
                "value": round(rows_s),
                "unit": "rows/s",
                "bound": f">= {BOUND_ROWS_S}",
                "ok": ok,
                "journaled": held,
                "commit": commit(),
                "machine": machine(),
            }
        )
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000))

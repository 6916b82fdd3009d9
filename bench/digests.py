"""What it costs to compare copies: a digest of one segment of a stream, beside the append of the same segment.

``python bench/digests.py``; prints one line as JSON. The bound: at most half of the append.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch import limits
from anabranch.bench.report import commit, machine
from anabranch.core.digests import Comparison, ComparisonState, CopyBegan, TuplesDigested
from anabranch.core.identities import Header
from anabranch.node.digesting import row_numbers
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

ORIGINS = ("events/0", "events/1")
ROWS = limits.SEGMENT_ROWS
BEGIN_US = 1_767_225_600_000_000
SCHEMA = pa.schema([("n", pa.int64()), ("key", pa.int64()), ("name", pa.string()), ("weight", pa.float64())])
ROUNDS = 30
BOUND = 0.5


def segment(number: int) -> pa.RecordBatch:
    n = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int64)
    return pa.record_batch(
        {
            "_tid": n,
            "_stime": pa.array(BEGIN_US + n * 100).cast(pa.timestamp("us", "UTC")),
            "_origin": (n % len(ORIGINS)).astype(np.int32),
            "n": n,
            "key": n % 1_000,
            "name": pa.array([f"host-{each % 200}.example" for each in n]),
            "weight": (n % 97) / 97.0,
        }
    )


def header_of(rows: pa.RecordBatch) -> Header:
    times = rows.column("_stime").cast(pa.int64()).to_numpy()
    return Header(rows.column("_origin").to_numpy(), times, rows.column("_tid").to_numpy())


def quickest_ms(step: Callable[[pa.RecordBatch], None], segments: list[pa.RecordBatch]) -> float:
    """The quickest round: what other programs take of the machine meanwhile is not counted."""
    took: list[float] = []
    for rows in segments:
        began = time.perf_counter()
        step(rows)
        took.append((time.perf_counter() - began) * 1000)
    return min(took)


def main() -> int:
    segments = [segment(number) for number in range(ROUNDS)]
    comparison = Comparison(ORIGINS)
    state, _ = comparison.handle(ComparisonState(), CopyBegan(copy="a", floors=np.zeros(2, np.int64)))

    def digest(rows: pa.RecordBatch) -> None:
        nonlocal state
        header = header_of(rows)
        promises = np.full(2, int(header.stimes[-1]))
        numbers = row_numbers(rows, header)
        state, _ = comparison.handle(state, TuplesDigested(copy="a", header=header, numbers=numbers, promises=promises))

    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(Path(directory) / "s.db")
        store.create_log(
            LogSpec(name="s", schema=SCHEMA, origins=ORIGINS, kind="journal", retention_us=1 << 60, limit_bytes=1 << 40)
        )

        def append(rows: pa.RecordBatch) -> None:
            with store.transaction() as transaction:
                transaction.append("s", rows, {}, now_us=0)

        append_ms = quickest_ms(append, segments)
        store.close()
    digest_ms = quickest_ms(digest, segments)
    ratio = digest_ms / append_ms
    print(
        json.dumps(
            {
                "name": "digest of a segment, beside its append",
                "value": round(digest_ms, 2),
                "unit": "ms",
                "baseline": round(append_ms, 2),
                "ratio": round(ratio, 3),
                "bound": f"<= {BOUND}",
                "ok": ratio <= BOUND,
                "rows": ROWS,
                "commit": commit(),
                "machine": machine(),
            }
        )
    )
    return 0 if ratio <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())

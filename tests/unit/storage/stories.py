"""What the stories about storage are told with: a small log, rows of it, and all that a store shows of itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from anabranch.storage import Bodies, Log, LogSpec, Store

ORIGINS = ("s/0", "s/1")
DATA = pa.schema([("name", pa.string()), ("value", pa.int64())])
NOW = 1_700_000_000_000_000
INLINE = partial(Bodies, large_bytes=1 << 40)
"""What ``Store.open`` takes to keep all bodies in its one file."""


def spec(name: str = "s", *, limit_bytes: int = 1 << 30, retention_us: int = 1_000_000) -> LogSpec:
    return LogSpec(
        name=name, schema=DATA, origins=ORIGINS, kind="source", retention_us=retention_us, limit_bytes=limit_bytes
    )


def rows(values: Sequence[int], *, time_us: int = 10, origin: int = 0, padding: int = 0) -> pa.RecordBatch:
    """One row for each value; the value is also its tid."""
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, pa.int64()),
            pa.array([time_us] * count, pa.timestamp("us", tz="UTC")),
            pa.array([origin] * count, pa.int32()),
            pa.array([f"row {value}" + "x" * padding for value in values], pa.string()),
            pa.array(values, pa.int64()),
        ],
        names=["_tid", "_stime", "_origin", "name", "value"],
    )


def append(store: Store, values: Sequence[int], *, log: str = "s", now_us: int = NOW, padding: int = 0) -> None:
    with store.transaction() as transaction:
        transaction.append(log, rows(values, padding=padding), {}, now_us=now_us)


def values_in(log: Log) -> list[int]:
    """The values that the log holds, with the ids checked on the way: without a hole from the first to the last."""
    values: list[int] = []
    next_id = log.first_id()
    for segment in log.read(log.first_seq() - 1, log.end_seq()):
        assert segment.first_id == next_id
        if segment.rows is not None:
            values += segment.rows.column("value").to_pylist()
            next_id += segment.rows.num_rows
    assert next_id == log.last_id() + 1
    return values


def observe(store: Store, *, keys: Sequence[str] = ("k",)) -> dict[str, object]:
    """Everything that a store shows: equal observations are equal stores."""
    seen: dict[str, object] = {key: store.get(key) for key in keys}
    seen["batch"] = store.last_batch()
    for name, log in store.logs.items():
        held = log.read(log.first_seq() - 1, log.end_seq())
        segments = [
            (one.seq, one.first_id, one.rows.to_pylist() if one.rows else None, one.punctuations) for one in held
        ]
        before = log.punctuations_at(log.first_seq() - 1)
        seen[name] = (log.incarnation, log.statistics(), before, segments)
    return seen


def files_of(path: Path) -> dict[str, bytes]:
    files = sorted(file for file in path.parent.rglob("*") if file.is_file())
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files}

"""Plain Spark as a process of its own: ``python -m anabranch.bench.plain_process DIRECTORY [KEY=VALUE ...]``.

Runs the window sum on the Parquet files in ``DIRECTORY/events`` and logs its results beside them. Says on standard
output how many there are, after each batch; ends when its standard input ends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from anabranch.bench.sides import FILES_PER_BATCH, log_results, open_results
from anabranch.bench.workloads import OUTPUT, window_sum
from anabranch.engine.baseline import PlainQuery
from anabranch.engine.session import SparkSettings, close_session, open_session


def main(directory: Path, conf: Mapping[str, str]) -> None:
    session = open_session(SparkSettings(conf=conf))
    folders = {"events": directory / "events"}
    query = PlainQuery(session, window_sum(), folders, directory / "checkpoint", files_per_batch=FILES_PER_BATCH)
    store = open_results(directory / "out.db", query.schema)

    def log(table: pa.Table) -> None:
        log_results(store, table)
        sys.stdout.write(f"{store.log(OUTPUT).last_id()}\n")
        sys.stdout.flush()

    try:
        query.start(log)
        sys.stdin.read()
    finally:
        query.stop()
        store.close()
        close_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(setting.split("=", 1) for setting in sys.argv[2:]))

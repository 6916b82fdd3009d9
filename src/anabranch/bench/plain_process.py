"""Plain Spark as a process of its own: ``python -m anabranch.bench.plain_process DIRECTORY [KEY=VALUE ...]``.

Runs every output of ``DIRECTORY/query.yaml`` as a query of its own, on the Parquet files in the directories that are
named after the sources, and on the checkpoint that is there or a new one. Logs the results beside them, and says on
standard output how many there are: after each batch one line of JSON, an output and its number. Ends when its standard
input ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from anabranch.bench.sides import FILES_PER_BATCH, log_results, open_results
from anabranch.bench.workloads import OUTPUT
from anabranch.engine.baseline import PlainQuery, PlainSink
from anabranch.engine.session import SparkSettings, close_session, open_session
from anabranch.query.files import load
from anabranch.storage.store import Store


def main(directory: Path, conf: Mapping[str, str]) -> None:
    diagram = load(directory / "query.yaml").checked()
    session = open_session(SparkSettings(conf=conf))
    folders = {source.name: directory / source.name for source in diagram.sources}
    queries: list[PlainQuery] = []
    stores: list[Store] = []
    try:
        for name in [output.name for output in diagram.outputs]:
            checkpoint = directory / "checkpoints" / name
            query = PlainQuery(session, diagram, folders, checkpoint, files_per_batch=FILES_PER_BATCH, output=name)
            stores.append(open_results(directory / f"{name}.db", query.schema))
            queries.append(query)
            query.start(_logging(name, stores[-1]))
        sys.stdin.read()
    finally:
        for query in queries:
            query.stop()
        for store in stores:
            store.close()
        close_session()


def _logging(output: str, store: Store) -> PlainSink:
    def log(table: pa.Table) -> None:
        log_results(store, table)
        sys.stdout.write(json.dumps({output: store.log(OUTPUT).last_id()}) + "\n")
        sys.stdout.flush()

    return log


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(setting.split("=", 1) for setting in sys.argv[2:]))

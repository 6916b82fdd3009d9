"""Plain Spark from files to files: ``python -m anabranch.bench.plain_files DIRECTORY [KEY=VALUE ...]``.

A process of its own, which runs the query of a steady flow on the Parquet files in ``DIRECTORY/events`` and writes its
results to ``DIRECTORY/out``, on the checkpoint that is there or a new one. Ends when its standard input ends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from anabranch.bench.steady import MASTER, SOURCE, query
from anabranch.engine.baseline import PlainQuery
from anabranch.engine.session import SparkSettings, close_session, open_session

FILES_PER_BATCH = 10_000
"""All that are there: a batch after a restart works off everything."""


def main(directory: Path, conf: Mapping[str, str]) -> None:
    session = open_session(SparkSettings(master=MASTER, conf=conf))
    folders = {SOURCE: directory / SOURCE}
    plain = PlainQuery(session, query(), folders, directory / "checkpoint", files_per_batch=FILES_PER_BATCH)
    try:
        plain.start_files(directory / "out")
        sys.stdin.read()
    finally:
        plain.stop()
        close_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(setting.split("=", 1) for setting in sys.argv[2:]))

"""Where an output goes besides Flight, for queries written in Python: ``ab.writers``.

    q.output("slow", slow, to=ab.writers.jsonl("slow.jsonl"))

What each option means is in ``docs/connectors.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Literal

from anabranch.query.connectors import ConsoleWriter, JsonLinesWriter, ParquetWriter, SparkWriter, TableWriter, Writer
from anabranch.query.specs import writer_from

__all__ = [
    "ConsoleWriter",
    "JsonLinesWriter",
    "ParquetWriter",
    "SparkWriter",
    "TableWriter",
    "Writer",
    "console",
    "jsonl",
    "parquet",
    "spark",
    "table",
]


def jsonl(path: str | PathLike[str]) -> Writer:
    """One file that grows, a JSON object per tuple."""
    return _writer("jsonl", {"path": fspath(path)})


def parquet(path: str | PathLike[str], *, rows: int | None = None, every: str | None = None) -> Writer:
    """A directory of Parquet files, one for each ``rows`` tuples, or for what came in ``every``."""
    return _writer("parquet", {"path": fspath(path), "rows": rows, "every": every})


def console(*, form: Literal["json", "table"] = "json") -> Writer:
    """Standard output of the node."""
    return _writer("console", {"form": form})


def spark(
    format: str,
    *,
    guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once",
    rows: int | None = None,
    every: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Writer:
    """Any batch writer of Spark, in append mode."""
    given = {"format": format, "guarantee": guarantee, "rows": rows, "every": every, "options": options}
    return _writer("spark", given)


def table(
    database: str | PathLike[str],
    table: str,
    *,
    key: str | Sequence[str] | None = None,
    rows: int | None = None,
    every: str | None = None,
) -> Writer:
    """A table in which each key has its newest tuple: ``sqlite:PATH``, ``duckdb:PATH``, ``postgresql://HOST/DB``."""
    columns = key if key is None or isinstance(key, str) else list(key)
    given = {"database": fspath(database), "table": table, "key": columns, "rows": rows, "every": every}
    return _writer("table", given)


def _writer(kind: str, options: Mapping[str, object]) -> Writer:
    writer = writer_from({kind: {name: value for name, value in options.items() if value is not None}})
    assert writer is not None
    return writer

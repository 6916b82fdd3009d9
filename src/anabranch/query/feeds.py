"""Where the rows of a source come from, for queries written in Python: ``ab.feeds``.

    q.source("load", "server string, cpu double", feed=ab.feeds.generator(rate=1000, seed=7))

A source without a feed is pushed to. What each option means is in ``docs/connectors.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from os import PathLike, fspath
from typing import Literal

from anabranch.query.connectors import Feed, FileFeed, GeneratorFeed, NexmarkFeed, SparkFeed
from anabranch.query.specs import feed_from

__all__ = [
    "Feed",
    "FileFeed",
    "GeneratorFeed",
    "NexmarkFeed",
    "SparkFeed",
    "file",
    "generator",
    "nexmark",
    "spark",
]


def generator(
    *,
    rate: float | Literal["max"] = 100,
    seed: int = 0,
    rows: int | None = None,
    start: str | datetime | None = None,
    every: str | None = None,
    then: Literal["close", "wait"] = "close",
    producer: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Feed:
    """Made-up rows, the same for the same seed: ``columns={"rtt_ms": "uniform(1, 2000)"}`` says how."""
    return _feed("generator", locals())


def file(
    path: str | PathLike[str],
    *,
    format: Literal["csv", "jsonl", "parquet"] | None = None,
    speed: float | Literal["max"] = "max",
    then: Literal["close", "wait"] = "close",
    producer: str | None = None,
) -> Feed:
    """The rows of files, in order, replayed at ``speed`` times the pace of the source's time column."""
    path = fspath(path)
    return _feed("file", locals())


def nexmark(
    stream: Literal["person", "auction", "bid"],
    *,
    events: int | None = None,
    rate: float | Literal["max"] = "max",
    seed: int = 0,
    start: str | datetime | None = None,
    every: str | None = None,
    then: Literal["close", "wait"] = "close",
    producer: str | None = None,
) -> Feed:
    """One of the three streams of the Nexmark benchmark, the same for the same seed."""
    return _feed("nexmark", locals())


def spark(
    format: str,
    *,
    schema: str | None = None,
    columns: str | None = None,
    lane: str | None = None,
    number: str | None = None,
    producer: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Feed:
    """Any streaming source of Spark; ``lane`` and ``number`` are expressions that identify each row."""
    return _feed("spark", locals())


def _feed(kind: str, options: Mapping[str, object]) -> Feed:
    feed = feed_from({kind: {name: value for name, value in options.items() if value is not None}})
    assert feed is not None
    return feed

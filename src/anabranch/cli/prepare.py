"""``anabranch prepare``: what makes later starts fast, done once."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.waiting import Waiting

if TYPE_CHECKING:
    from anabranch.node.node import Node
    from anabranch.query.builder import Query

WRITING_S: Final = 180.0
"""How long a JVM may take to write the archive when it ends: some fifteen seconds on two slow cores."""


def prepare(
    again: Annotated[bool, typer.Option("--again", help="Make a new archive even if one exists.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")
    ] = False,
) -> None:
    """Make Spark start in about half the time.

    Runs a small query once and archives its Java classes in a file, which takes about a minute. The file (160 MB) is
    beside the installed PySpark and fits this Python environment and this Java. Without it everything works, but
    starts more slowly. A Java that has no archive of its own classes cannot have one.

    \b
    Examples:
      anabranch prepare
      anabranch prepare --again --json | jq -r .archive
    """
    from anabranch.engine import archive
    from anabranch.engine.session import JAVA_OPTIONS, close_session
    from anabranch.errors import ConfigError, EngineError
    from anabranch.node.node import Node
    from anabranch.node.settings import NodeSettings

    target = archive.archive()
    if target.exists() and not again:
        _tell(target, None, as_json=as_json)
        return
    if not archive.can_be_made():
        _tell(None, None, as_json=as_json)
        return
    started = time.monotonic()
    new = target.with_suffix(".new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        new.touch()
        new.unlink()
    except OSError as error:
        raise ConfigError(
            f"The archive cannot be written to {target.parent}: {error.strerror}.",
            remedy="Run this as the owner of the Python environment.",
        ) from error
    with tempfile.TemporaryDirectory(prefix="anabranch-prepare-") as directory:
        conf = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {archive.making(new)}"}
        waiting = Waiting(done="written", err=as_json)
        node = Node(
            _query(), Path(directory, "state"), NodeSettings(master="local[2]", conf=conf), progress=waiting.progress
        )
        with waiting:
            try:
                node.start()
                waiting.progress("running a small query")
                _use(node)
            finally:
                node.stop()
                waiting.progress("writing the archive")
                close_session(WRITING_S)
    if not new.exists():
        raise EngineError(
            "The JVM exited without writing its archive.", remedy="Try again with `anabranch prepare --again`."
        )
    new.replace(target)
    _tell(target, time.monotonic() - started, as_json=as_json)


def _tell(archive: Path | None, seconds: float | None, *, as_json: bool) -> None:
    """Where the archive is, if there can be one, and how long it took to make it, if it was made now."""
    if archive is None:
        typer.echo(
            "This Java has no archive of its own classes, so Spark cannot have one, and starts more slowly. "
            "java -Xshare:dump makes it; then run this again.",
            err=True,
        )
    if as_json:
        import json

        made = None if seconds is None else round(seconds, 1)
        where = None if archive is None else str(archive)
        typer.echo(json.dumps({"archive": where, "made": seconds is not None, "seconds": made}))
    if archive is None or as_json:
        return
    typer.echo(f"ready: {archive}" if seconds is None else f"ready after {seconds:.0f} s: {archive}")


def _query() -> Query:
    """One of each box: what they need of Spark is what any query needs."""
    from anabranch.query.builder import Query

    query = Query("prepare")
    left = query.source("left", "k string, x double, at timestamp", time="at")
    right = query.source("right", "other string, y double, since timestamp", time="since")
    large, small = left.filter("x > 1", otherwise=True)
    both = query.union(large.map("k, x * 2 AS x, at"), small)
    query.output("sums", both.aggregate("count(*) AS n, sum(x) AS x", by="k", window="10s"))
    query.output("pairs", large.join(right, on="k = other", within="1s"))
    return query


def _use(node: Node) -> None:
    from anabranch.transport.session import connect

    with connect(node.address) as connection:
        for second in range(4):
            at = (second + 1) * 30_000_000
            connection.push("left", [{"k": "a", "x": float(n), "at": at} for n in range(4)])
            connection.push("right", [{"other": "a", "y": 1.0, "since": at}])
            node.wait_caught_up(30)

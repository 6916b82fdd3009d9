"""What can be wrong with a feed or a writer, given the source or the query it belongs to.

What a feed or writer says of itself was checked when it was read (``specs``). Whether a file is there, or Spark knows
the format, is found out when the node starts.
"""

from __future__ import annotations

from anabranch.errors import with_article
from anabranch.query.boxes import Diagram, Output, Schema, Source
from anabranch.query.connectors import (
    NEXMARK,
    ConsoleWriter,
    Feed,
    FileFeed,
    GeneratorFeed,
    NexmarkFeed,
    SparkFeed,
    TableWriter,
    Values,
    writer_key,
)
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import lookup
from anabranch.query.specs import option_names

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def check_feed(source: Source, feed: Feed, report: Report) -> None:
    def wrong(message: str, remedy: str) -> None:
        report.add("bad-connector", source.name, "feed", f"feed: {message}", remedy)

    match feed:
        case GeneratorFeed():
            _check_generator(source, feed, report)
        case NexmarkFeed():
            _check_nexmark(source, feed, report)
        case FileFeed():
            if feed.speed is not None and source.time is None:
                wrong("a speed needs the times of the rows.", "Name a time column, or leave speed out.")
        case SparkFeed():
            if (feed.lane is None) != (feed.number is None):
                wrong("lane and number belong together.", "Give both, or neither.")
            elif feed.lane is not None and not source.producers:
                wrong("a lane per row needs the names of the lanes.", "List them as producers of the source.")
            elif feed.lane is not None and feed.producer is not None:
                wrong("rows with a lane of their own need no producer.", "Leave producer out.")
    if isinstance(feed, SparkFeed) and feed.lane is not None:
        return
    if feed.producer is None and len(source.producers) > 1:
        wrong("the source has several producers.", f"Name one: producer={source.producers[0]}.")
    elif feed.producer is not None and source.producers and feed.producer not in source.producers:
        wrong(f"there is no producer {feed.producer!r}.", candidates(feed.producer, source.producers))


def check_writers(diagram: Diagram, report: Report) -> None:
    """No two writers to one place: each would take the other's tuples for its own."""
    taken: dict[str, str] = {}
    for output in diagram.outputs:
        for writer in output.to:
            key = writer_key(writer)
            if isinstance(writer, ConsoleWriter):
                continue
            if key in taken:
                message = f"to: {key} is also written by the output {taken[key]!r}."
                report.add("bad-connector", output.name, "to", message, "Give each writer its own target.")
            taken[key] = output.name


def check_keys(output: Output, schema: Schema | None, report: Report) -> None:
    """A table is written by the columns of its key: they must be among those of the output."""
    for writer in output.to:
        for name in writer.key if isinstance(writer, TableWriter) else ():
            if schema is not None and lookup(schema, name) is None:
                remedy = candidates(name, (column.name for column in schema))
                report.add("unknown-column", output.name, "to", f"to: there is no column {name!r}.", remedy)


def _check_generator(source: Source, feed: GeneratorFeed, report: Report) -> None:
    def wrong(message: str, remedy: str) -> None:
        report.add("bad-connector", source.name, "feed", f"feed: {message}", remedy)

    if source.time is None and (feed.start_us is not None or feed.every_us is not None):
        wrong("start and every need a time column.", "Name a time column, or leave them out.")
    if feed.every_us is not None and feed.start_us is None:
        wrong("every counts from a start.", "Give a start as well.")
    names = [column.name for column in source.schema]
    for name, values in feed.columns:
        column = lookup(source.schema, name)
        if column is None:
            wrong(f"there is no column or option {name!r}.", candidates(name, [*names, *option_names(feed)]))
        elif source.time is not None and column.name.lower() == source.time.lower():
            wrong(f"{name!r} is the time column.", "Use start and every for it.")
        elif values.kind != "choice" and (column.type or "").partition("(")[0] not in _NUMBERS:
            wrong(f"{values.kind} makes numbers, and {name!r} is {with_article(column.type)}.", "Use choice.")
        else:
            _check_bounds(column.type or "", name, values, report, source)


def _check_nexmark(source: Source, feed: NexmarkFeed, report: Report) -> None:
    """A source may have fewer columns than the stream, and no others."""
    columns = NEXMARK[feed.stream]
    names = {name.lower(): name for name in columns}
    for column in source.schema:
        name = names.get(column.name.lower())
        if name is None:
            message = f"feed: the stream {feed.stream} has no column {column.name!r}."
            report.add("bad-connector", source.name, "feed", message, candidates(column.name, columns))
        elif column.type not in (None, columns[name]):
            found, declared = with_article(columns[name]), with_article(column.type)
            message = f"feed: {name!r} of the stream {feed.stream} is {found}, not {declared}."
            report.add("bad-connector", source.name, "feed", message, f"Declare it as {columns[name]}.")


def _check_bounds(type_: str, name: str, values: Values, report: Report, source: Source) -> None:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.get(type_)
    if values.kind != "uniform" or bits is None:
        return
    low, high = (float(argument) for argument in values.arguments)
    if low < -(2 ** (bits - 1)) or high >= 2 ** (bits - 1) or low != int(low) or high != int(high):
        message = f"feed: uniform({','.join(values.arguments)}) does not fit {name!r}, a {type_}."
        report.add("bad-connector", source.name, "feed", message, "Give whole numbers that fit.")

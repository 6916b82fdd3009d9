"""What is wrong with the streams of a run: by themselves, and against what they should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.chaos.checkers import (
    Entry,
    Identity,
    followed_exactly,
    ids_contiguous,
    last_punctuations,
    nothing_twice,
    punctuations_monotone,
    punctuations_true,
    rows_of,
    same_punctuations,
    same_rows,
)
from tests.chaos.queries import TABLES
from tests.chaos.recording import Expected

Streams = Mapping[str, list[Entry]]
"""Each read from its first entry on, by name."""

Table = Mapping[str, Identity]
"""A table that a writer keeps: the tuple of each key."""

NOTHING: Mapping[str, frozenset[str]] = {}


def problems_of_log(entries: Sequence[Entry]) -> list[str]:
    """Of one log, whatever it should hold."""
    return [*problems_of_stream(entries), *ids_contiguous(rows_of(entries))]


def problems_of_stream(entries: Sequence[Entry]) -> list[str]:
    """The same of what was read from several copies, which has no ids."""
    return [*nothing_twice(rows_of(entries)), *punctuations_monotone(entries), *punctuations_true(entries)]


def problems_within(streams: Streams, name: str, followed: Sequence[Entry]) -> list[str]:
    """Of logs, and of what a follower of one of them saw while the node was killed again and again."""
    found = [f"{each}: {problem}" for each, entries in streams.items() for problem in problems_of_log(entries)]
    seen = [*problems_of_log(followed), *followed_exactly(rows_of(streams[name]), rows_of(followed))]
    return found + [f"{name}, followed: {problem}" for problem in seen]


def problems_of_tables(streams: Streams, tables: Mapping[str, Table]) -> list[str]:
    """A table has the newest tuple of each key, in the order of the stream, and nothing else."""
    found = []
    for name, table in tables.items():
        key, stream = TABLES[name]
        order = sorted(rows_of(streams[stream]), key=lambda row: (row.stime, row.origin, row.tid))
        newest = {row.values[key]: row.identity for row in order}
        wrong = {each for each in newest.keys() | table.keys() if newest.get(each) != table.get(each)}
        found += [f"{name}: {each!r} is {table.get(each)}, not {newest.get(each)}" for each in sorted(wrong)]
    return found


def problems_against(
    expected: Mapping[str, Expected], streams: Streams, rounded: Mapping[str, frozenset[str]] = NOTHING
) -> list[str]:
    """Where the streams differ from what they should have been; ``rounded`` has the columns that may, a little."""
    found = []
    for name, entries in streams.items():
        wrong = same_rows(expected[name].rows, rows_of(entries), rounded.get(name, frozenset()))
        wrong += same_punctuations(expected[name].punctuations, last_punctuations(entries))
        found += [f"{name}: {problem}" for problem in wrong]
    missing = expected.keys() - streams.keys() - TABLES.keys()
    return found + [f"{name}: the stream was not read" for name in sorted(missing)]


def as_expected(streams: Streams) -> dict[str, Expected]:
    """An undisturbed run as the measure for another."""
    return {name: Expected(rows_of(entries), last_punctuations(entries)) for name, entries in streams.items()}

"""SQL in the reference: statements, rows in, rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import anabranch as ab
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.query.boxes import Diagram
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple

Rows = list[dict[str, Any]]

SOURCES = """
CREATE SOURCE ping (host STRING, rtt INT, at TIMESTAMP) WITH (time = at);
CREATE SOURCE load (host STRING, cpu INT, seen TIMESTAMP) WITH (time = seen);
"""


def run(text: str, **rows: Rows) -> dict[str, Rows]:
    """The rows of each output of a text behind the two sources."""
    return results(ab.sql(SOURCES + text).checked(), rows)


def results(diagram: Diagram, rows: Mapping[str, Rows]) -> dict[str, Rows]:
    """The rows of each output, after all rows of all sources, each of which then closes."""
    reference = ReferenceRun(diagram)
    for source in diagram.sources:
        tuples = [
            Tuple(origin=source.origins[0], stime=row[source.time or ""], tid=number, values=row)
            for number, row in enumerate(rows.get(source.name, []))
        ]
        reference.feed(source.name, tuples, {source.origins[0]: CLOSED_US})
    found = reference.results()
    return {output.name: [dict(each.values) for each in found[output.name]] for output in diagram.outputs}


def only(text: str, **rows: Rows) -> Rows:
    """The rows of the one output."""
    (found,) = run(text, **rows).values()
    return found


def counted(rows: Rows) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(row.items()) for row in rows)


def same(found: Rows, *expected: dict[str, Any]) -> bool:
    return counted(found) == counted(list(expected))


def pings(*rows: tuple[str, int, float]) -> Rows:
    return [{"host": host, "rtt": rtt, "at": int(at * SECOND)} for host, rtt, at in rows]


def loads(*rows: tuple[str, int, float]) -> Rows:
    return [{"host": host, "cpu": cpu, "seen": int(seen * SECOND)} for host, cpu, seen in rows]

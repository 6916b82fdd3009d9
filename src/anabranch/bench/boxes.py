"""One query for each box of the catalogue, with the rows it is measured with, for ``bench operators``.

Every box gets the same stream: 1000 keys in turn. Sums are of integers, so that outputs can be compared. A query has
one output named ``out``; what stands in front of its box is part of the same stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anabranch.bench.workloads import EVENTS, KEYS, OUTPUT, RIGHTS, SELECTED, Workload, window_sum
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query, Stream

SUM: Final = "sum(value) AS total"
ROWS: Final = 10
"""Tuples in a window of tuples."""
RUN: Final = 100
"""Tuples in a run of Tumble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxWorkload:
    """How a box is measured. ``share`` is its part of the rows; ``plain`` says whether plain Spark has the same box,
    ``same_rows`` whether both make the same rows, and ``in_order`` whether the box works in canonical order."""

    name: str
    diagram: Diagram
    share: float = 1.0
    plain: bool = False
    same_rows: bool = True
    in_order: bool = False

    @property
    def workload(self) -> Workload:
        """As the sides of a benchmark know it. Results are not counted beforehand."""
        return Workload(self.name, self.diagram, self.share, lambda _: 0, throughput=0.0, batch=0.0)


def window_of_time() -> BoxWorkload:
    """What a micro-batch of other boxes is compared with."""
    return BoxWorkload(name="aggregate", diagram=window_sum(), plain=True)


def box_workloads() -> list[BoxWorkload]:
    """One for each kind of box, and for windows of tuples."""
    return [
        _plain("filter", _of_events(lambda events: events.filter(f"value < {SELECTED}"))),
        _plain("map", _of_events(lambda events: events.map("key, value * 2 AS twice"))),
        _plain("drop", _of_events(lambda events: events.drop(f"value >= {SELECTED}"))),
        BoxWorkload(name="python", diagram=_of_events(_doubled)),
        BoxWorkload(name="lookup", diagram=_lookup()),
        _plain("union", _union()),
        window_of_time(),
        _plain("session", _of_events(lambda events: events.session(SUM, by="key", gap="1s"))),
        _plain("join", _of_two(lambda one, two: one.join(two, on="key = other", within="1s")), share=0.04),
        _plain("dedup", _dedup(), share=0.3, same_rows=False, in_order=True),
        _ordered("count windows", _of_events(lambda events: events.aggregate(SUM, by="key", rows=ROWS))),
        _ordered("tumble", _of_events(lambda events: _runs(events).tumble(SUM, by="run"))),
        _ordered("slide", _of_events(lambda events: events.slide(SUM, by="key", rows=ROWS))),
        _ordered("xsection", _of_events(lambda events: events.xsection(SUM, by="key", window="10s", every="10s"))),
        _ordered("latest", _of_two(lambda one, two: one.latest(two, on="key = other", within="1s"))),
        _ordered("resample", _of_two(_resampled)),
        _ordered("wsort", _of_events(lambda events: events.wsort("value", timeout="1s")[0])),
    ]


def _plain(
    name: str, diagram: Diagram, *, share: float = 1.0, same_rows: bool = True, in_order: bool = False
) -> BoxWorkload:
    return BoxWorkload(name=name, diagram=diagram, share=share, plain=True, same_rows=same_rows, in_order=in_order)


def _ordered(name: str, diagram: Diagram) -> BoxWorkload:
    return BoxWorkload(name=name, diagram=diagram, share=0.3, in_order=True)


def _of_events(made: Callable[[Stream], Stream]) -> Diagram:
    query = Query("box")
    query.output(OUTPUT, made(query.source("events", EVENTS, time="at")))
    return query.checked()


def _of_two(made: Callable[[Stream, Stream], Stream]) -> Diagram:
    query = Query("box")
    one, two = query.source("events", EVENTS, time="at"), query.source("looks", RIGHTS, time="since")
    query.output(OUTPUT, made(one, two))
    return query.checked()


def _union() -> Diagram:
    query = Query("box")
    one, two = (query.source(name, EVENTS, time="at") for name in ("events", "others"))
    query.output(OUTPUT, query.union(one, two))
    return query.checked()


def _dedup() -> Diagram:
    """Every tuple comes twice. Plain Spark keeps what arrives first, so the rows may be others; not their number."""
    query = Query("box")
    query.output(OUTPUT, query.source("pairs", EVENTS, time="at").dedup("n", horizon="1s"))
    return query.checked()


def _doubled(events: Stream) -> Stream:
    return events.python("anabranch.bench.functions:twice", "twice bigint", reads="value", deterministic=True)


def _lookup() -> Diagram:
    """Every tuple finds one row."""
    query = Query("box")
    names = query.table(
        "names", "id bigint, name string", key="id", rows=[(each, f"key {each}") for each in range(KEYS)]
    )
    query.output(OUTPUT, query.source("events", EVENTS, time="at").lookup(names, on="key = id"))
    return query.checked()


def _resampled(one: Stream, two: Stream) -> Stream:
    return one.resample(two, "amount", how="linear", within="1s", on="key = other")


def _runs(events: Stream) -> Stream:
    return events.map(f"n div {RUN} AS run, value")

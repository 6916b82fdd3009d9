"""What simulated replicas compute: one box on two sources, one behind it of any kind that holds state, and perhaps a
third behind both.

The first two have always the same names (``pairs`` on the two sources, ``totals`` on its tuples, an output of each), so
who runs what does not depend on the boxes. What they make of tuples is the reference; which boxes a run has is drawn,
so that the protocol is tried with those that depend on the order of tuples, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query, Stream

LOW: Final = "low"
HIGH: Final = "high"
WANTED: Final = "wanted"
PAIRS: Final = "pairs"
SHORT: Final = "short"
TOTALS: Final = "totals"
WIDE: Final = "wide"
NARROW: Final = "narrow"
THIRD: Final = "third"
_SUMS: Final = "count(*) AS n, sum(y) AS total"

PAIRINGS: Final[Mapping[str, Callable[[Stream, Stream], Stream]]] = {
    "join": lambda left, right: left.join(right, on="k = k2", within="2s", name=PAIRS),
    "latest": lambda left, right: left.latest(right, on="k = k2", outer=True, name=PAIRS),
    "resample": lambda left, right: left.resample(right, "y", how="nearest", within="500ms", on="k = k2", name=PAIRS),
}

SUMMINGS: Final[Mapping[str, Callable[[Stream], Stream]]] = {
    "aggregate": lambda pairs: pairs.aggregate(_SUMS, by="k", window="4s", name=TOTALS),
    "early aggregate": lambda pairs: pairs.aggregate(_SUMS, by="k", window="4s", emit_rows=2, name=TOTALS),
    "count": lambda pairs: pairs.aggregate(_SUMS, by="k", rows=3, timeout="3s", name=TOTALS),
    "session": lambda pairs: pairs.session(_SUMS, by="k", gap="500ms", name=TOTALS),
    "tumble": lambda pairs: pairs.tumble(_SUMS, by="k", timeout="3s", name=TOTALS),
    "slide": lambda pairs: pairs.slide(_SUMS, by="k", rows=3, name=TOTALS),
    "xsection": lambda pairs: pairs.xsection(_SUMS, by="k", window="1s", expire="3s", name=TOTALS),
    "dedup": lambda pairs: pairs.dedup("k, x", horizon="1s", name=TOTALS),
    "wsort": lambda pairs: pairs.wsort("x, k", timeout="500ms", name=TOTALS)[0],
}


THIRDS: Final[Mapping[str, Callable[[Stream, Stream], Stream]]] = {
    "aggregate": lambda pairs, totals: totals.aggregate("count(*) AS m", by="k", window="8s", name=THIRD),
    "dedup": lambda pairs, totals: totals.dedup("k", horizon="1s", name=THIRD),
    "rejoin": lambda pairs, totals: pairs.latest(
        totals.map("k AS k3", name=NARROW), on="k = k3", outer=True, name=THIRD
    ),
    "reunion": lambda pairs, totals: pairs.map("k", name=WIDE).union(totals.map("k", name=NARROW), name=THIRD),
}
"""Behind both of the others. The last two get some tuples of the first box by two ways."""


@lru_cache(maxsize=256)
def simulated(first: str, second: str, third: str | None = None, *, two_ways: bool = False) -> Diagram:
    """The diagram with these boxes. With ``two_ways``, some tuples of a source come to the first box twice, through
    filters that overlap."""
    query = Query("simulated")
    left = query.source("left", "k int, x int, at timestamp", time="at", producers=("p", "q"))
    right = query.source("right", "k2 int, y int, since timestamp", time="since", disorder="1s")
    if two_ways:
        wanted = left.filter("x < 6", name=LOW).union(left.filter("x >= 3", name=HIGH), name=WANTED)
    else:
        wanted = left.filter("x >= 0", name=WANTED)
    pairs = PAIRINGS[first](wanted, right)
    query.output("pairs_out", pairs.map("k, x, y", name=SHORT))
    totals = SUMMINGS[second](pairs)
    query.output("sums", totals)
    if third is not None:
        query.output("thirds", THIRDS[third](pairs, totals))
    return query.checked()


def layered_boxes(diagram: Diagram) -> list[list[tuple[str, ...]]]:
    """The boxes in the order of flow: groups, and what is side by side in each."""
    known = {box.name for box in diagram.boxes}
    groups: list[list[tuple[str, ...]]]
    groups = [[(LOW,), (HIGH,)], [(WANTED,)], [(PAIRS, SHORT)], [(TOTALS,)], [(WIDE, NARROW, THIRD)]]
    found = [[tuple(box for box in boxes if box in known) for boxes in group] for group in groups]
    return [boxes for group in found if (boxes := [each for each in group if each])]

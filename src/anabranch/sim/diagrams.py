"""What simulated replicas compute: one box on two sources, and one behind it, of any kind that holds state.

The places are always the same (``pairs`` on the two sources, ``totals`` on its tuples, an output of each), so who runs
what does not depend on the boxes. What they make of tuples is the reference; which boxes a run has is drawn, so that
the protocol is tried with those that depend on the order of tuples, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query, Stream

PAIRS: Final = "pairs"
TOTALS: Final = "totals"
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


@lru_cache(maxsize=len(PAIRINGS) * len(SUMMINGS))
def simulated(first: str, second: str) -> Diagram:
    """The diagram with these boxes."""
    query = Query("simulated")
    left = query.source("left", "k int, x int, at timestamp", time="at", producers=("p", "q"))
    right = query.source("right", "k2 int, y int, since timestamp", time="since", disorder="1s")
    pairs = PAIRINGS[first](left.filter("x >= 0", name="wanted"), right)
    query.output("pairs_out", pairs.map("k, x, y", name="short"))
    query.output("sums", SUMMINGS[second](pairs))
    return query.checked()

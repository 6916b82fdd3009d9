"""Six diagrams that have every box in every position that matters, and random scripts for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import anabranch as ab
from anabranch.query.boxes import Diagram
from tests.recording import Push

Lane = tuple[str, str | None]
"""A source, and the producer of the lane if it has one."""

START = datetime(2026, 3, 1, tzinfo=UTC)
FUNCTIONS = "tests.python_functions"
KEYS = ("a", "b", "B", None)
NUMBERS = (0, 1, 2, 3, None)
FLOATS = (0.0, -0.0, 0.25, float("nan"), None)


def stateless_and_windows() -> Diagram:
    """Filters with several ports, Maps, Unions with and without common sources, windows on each of them."""
    query = ab.Query("windows")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    low, middle, rest = a.filter("x < 1", "x < 3", otherwise=True, name="split")
    doubled = middle.map("k, x * 2 AS x, f, at", name="doubled")
    both = query.union(doubled, b, name="both")  # no source in common: identities are kept
    diamond = query.union(low, a, b, a, name="diamond")  # a source in common: the identities of all inputs are hashed
    query.output("everything", a)
    query.output("rest", rest.map("upper(k) AS k, _stime AS when", name="shouted"))
    query.output("both", both)
    query.output("diamond", diamond.filter("x IS NOT NULL", name="known"))
    sums = both.aggregate("count(*) AS n, sum(x) AS x", by="k", window="4s", every="2s", name="sums")
    query.output("sums", sums)
    query.output("large", sums.filter("n > 1", name="large").map("k, n", name="sizes"))
    query.output(
        "floats", a.aggregate("count(x) AS n, max(x) AS x, min(at) AS first", by="f, k", window="3s", name="floats")
    )
    described = middle.python(
        f"{FUNCTIONS}:describe", "later timestamp, shout string, twice bigint, known boolean", reads="X, k, at",
        deterministic=True, name="described",
    )  # fmt: skip
    query.output("described", described)  # several ways up from one source: the function sees what Filters let through
    inverses = described.filter("x <> 0", name="nonzero").python(
        f"{FUNCTIONS}:inverse", "inverse double", reads="twice", deterministic=True, name="inverses"
    )
    query.output("inverses", inverses.filter("inverse < 0.4", name="small").map("k, inverse", name="narrow"))
    texts = both.python(f"{FUNCTIONS}:written", "text string, nulls int", deterministic=True, name="texts")
    query.output("texts", texts.aggregate("count(*) AS n, max(x) AS x", by="text, nulls", window="3s", name="by_text"))
    return query.diagram()


def joins() -> Diagram:
    """Joins with an equality, without one, and with itself; two outputs on one; a window and a Union behind a Join."""
    query = ab.Query("joins")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    left = a.map("k AS lk, x AS lx", name="lefts")
    right = b.map("k AS rk, x AS rx", name="rights")
    equal = left.join(right, on="lk = rk AND lx >= 0", within="3s", name="equal")
    same, other = equal.filter("lx = rx", otherwise=True, name="same")
    query.output("same", same)
    query.output("other", other.map("lk, lx - rx AS d", name="difference"))
    query.output("less", left.join(right, on="lx < rx", within="1500ms", name="less"))
    query.output("twins", left.join(a.map("k AS k2, x AS x2", name="again"), on="lk = k2", within="1s", name="twins"))
    query.output("per_key", equal.aggregate("count(*) AS n, max(rx) AS rx", by="lk", window="3s", name="per_key"))
    mixed = query.union(left, equal.map("lk, rx AS lx", name="matched"), name="mixed")
    query.output("mixed", mixed)  # no common origin, but a common source: identities are hashed
    return query.diagram()


def counting() -> Diagram:
    """Windows of tuples that tumble and overlap, of all types, with and without groups, before and behind others;
    Drops below a root and above one."""
    query = ab.Query("counting")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    both = query.union(a.drop(0.2, seed=3, name="thinned"), b.drop("x = 1", name="without_ones"), name="both")
    threes = both.aggregate("count(*) AS n, sum(x) AS x, max(f) AS f", by="k", rows=3, name="threes")
    query.output("threes", threes)
    query.output("thinner", threes.drop(0.5, name="halved").map("k, x", name="narrow").drop("x > 3", name="small"))
    query.output(
        "moving",
        both.aggregate(
            "count(x) AS n, min(at) AS first, max(at) AS last, max(k) AS k", by="F", rows=5, every_rows=2, name="moving"
        ),
    )
    query.output("ones", a.aggregate("min(x) AS x, min(k) AS k", rows=1, name="ones"))
    query.output("twos", threes.aggregate("sum(n) AS n, min(k) AS k", rows=2, every_rows=1, name="twos"))
    timed = both.aggregate("count(*) AS n, max(at) AS last", by="k", rows=4, timeout="1500ms", name="timed")
    query.output("timed", timed)
    query.output("fives", both.aggregate("count(*) AS n, sum(x) AS x", by="k", rows=5, emit_rows=2, name="fives"))
    early = both.aggregate("count(*) AS n", by="k", rows=4, emit_rows=1, timeout="1500ms", name="early")
    query.output("early", early)
    spans = both.aggregate("count(*) AS n, max(at) AS last", by="f", window="2s", emit_rows=3, name="spans")
    query.output("spans", spans)
    query.output("per_second", threes.aggregate("count(*) AS n", window="2s", name="per_second"))
    return query.diagram()


def ordered() -> Diagram:
    """Boxes whose result depends on the order of tuples, before and behind others that wait or do not."""
    query = ab.Query("ordered")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    both = query.union(a, b, name="both")
    once = both.dedup("K, f", horizon="3s", name="once")
    query.output("once", once)
    query.output("small", once.filter("x < 2", name="small").map("k, x", name="narrow"))
    query.output("once_a_key", once.dedup("k", horizon="1500ms", name="once_a_key"))
    query.output(
        "sessions", both.session("count(*) AS n, sum(x) AS x, max(f) AS f", by="k", gap="1500ms", name="sessions")
    )
    query.output("visits", a.session("count(x) AS n, min(k) AS k", gap="500ms", name="visits"))
    table = b.map("k AS rk, x AS rx, f AS rf", name="table")
    newest = a.latest(table, on="rk = k", within="1s", name="newest")
    query.output("newest", newest)
    known = a.latest(table, on="k = rk AND rf = f", outer=True, name="known")
    query.output("known", known)
    query.output("positive", known.filter("rx > 0", name="positive"))
    query.output("any", both.latest(a.map("x AS ax", name="plain"), outer=True, name="any_of_a"))
    query.output("newest_once", newest.dedup("k", horizon="1s", name="newest_once"))
    stays = both.session("count(*) AS n, max(at) AS last", by="k", gap="1500ms", emit_rows=2, name="stays")
    query.output("stays", stays)
    steps = both.tumble("count(*) AS n, sum(x) AS x", by="k", emit_rows=2, timeout="2s", name="steps")
    query.output("steps", steps)
    query.output("runs", both.tumble("count(*) AS n, sum(x) AS x, max(f) AS f", by="k", name="runs"))
    marked = both.map("x IS NULL AS missing, k, x, at", name="marked")
    timed = marked.tumble("count(x) AS n, min(at) AS first, max(k) AS k", by="missing", timeout="1s", name="timed_runs")
    query.output("timed_runs", timed)
    query.output("runs_of_runs", timed.tumble("sum(n) AS n", by="k", name="runs_of_runs"))
    query.output("again", query.union(once, a, name="again"))  # one input waits for the other's origins
    return query.diagram()


def sliding() -> Diagram:
    """Boxes whose windows move with tuples and moments."""
    query = ab.Query("sliding")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    both = query.union(a, b, name="both")
    sums = "count(*) AS n, sum(x) AS x, min(at) AS first, max(at) AS last"
    query.output("last_three", both.slide(sums, by="K", rows=3, name="last_three"))
    query.output("last_second", both.slide(sums, by="f, k", window="1s", name="last_second"))
    query.output("every_second", both.slide(sums, by="k", rows=4, every_rows=2, name="every_second"))
    query.output("of_three", a.slide(sums, window="1500ms", every_rows=3, name="of_three"))
    query.output("at_moments", both.slide(sums, by="k", rows=2, every="1s", name="at_moments"))
    query.output("while_at_moments", both.slide(sums, by="k", window="2s", every="1s", name="while_at_moments"))
    query.output("sections", both.xsection(sums, by="k", window="2s", every="1s", name="sections"))
    lasting = a.xsection(
        "count(*) AS n, count_if(x IS NULL) AS nulls, sum(x) FILTER (WHERE x > 1) AS x, 1 + max(x) AS y",
        by="f", window="1s", expire="3s", name="lasting",
    )  # fmt: skip
    query.output("lasting", lasting)
    second = b.map("k AS rk, x AS rx, CAST(x AS decimal(4,1)) + f AS rf", name="second")
    sorted_, late = both.wsort("f, K", timeout="500ms", name="sorted")
    query.output("sorted_out", sorted_)
    query.output("late_out", late.filter("x IS NOT NULL", name="late_known"))
    query.output("late_sums", late.slide("count(*) AS n", by="k", rows=2, name="late_sums"))
    for how in ("linear", "previous", "nearest", "mean"):
        made = a.resample(second, "rx, RF", how=how, within="1s", on="k = rk" if how != "nearest" else None, name=how)
        query.output(f"{how}_out", made)
    return query.diagram()


def lookups() -> Diagram:
    """Lookups by the key of a table and by other columns, several on one root, below roots, above them and in a row."""
    query = ab.Query("lookups")
    a = query.source("a", "k string, x int, f double, at timestamp", time="at", disorder="2s")
    b = query.source("b", "k string, x int, f double, at timestamp", time="at", producers=("left", "right"))
    names = query.table("names", "code string, name string", key="code", rows=[("a", "ant"), ("B", None), ("z", "zoo")])
    rows = [("a", 0, 0.0), ("a", 1, 0.25), ("b", 1, -0.0), ("b", 2, float("nan")), ("c", 1, None), ("B", 7, 0.25)]
    many = query.table("many", "mk string, mx int, mf double", key=("MK", "mx"), rows=rows)
    nothing = query.table("nothing", "nk string", key="nk", rows=[])
    named = a.lookup(names, on="k = code", name="named")
    query.output("named", named)
    query.output("everything", a)
    several = a.lookup(many, on="x = mx", outer=True, name="several")
    query.output("several", several)
    query.output("later", several.filter("mk > 'a'", name="later").map("mk, x + mx AS y, at", name="narrow"))
    query.output("by_float", a.drop("x = 0", name="not_zero").lookup(many, on="mf = F", name="by_float"))
    query.output("none_found", a.lookup(nothing, on="nk = k", outer=True, name="none_found"))
    twice = several.map("mk AS k2, x AS x2", name="again").lookup(many, on="k2 = mk", name="twice")
    query.output("twice", twice)
    query.output("of_b", b.lookup(many, on="k = mk AND x = mx", name="of_b").map("mk, mf", name="of_b_only"))
    both = query.union(a, b, name="both")
    found = both.lookup(many, on="k = mk", name="found")
    sums = found.aggregate("count(*) AS n, sum(mx) AS mx", by="k", window="3s", name="sums")
    query.output("sums", sums)
    query.output("sums_named", sums.lookup(names, on="k = code", outer=True, name="sums_named"))
    query.output("last_two", found.slide("count(*) AS n, sum(mx) AS y", by="k", rows=2, name="last_two"))
    pairs = found.join(b.map("k AS rk, x AS rx", name="rights"), on="mk = rk AND mx = rx", within="1s", name="pairs")
    query.output("pairs", pairs)
    query.output("diamond", query.union(named.map("k, x, f, at", name="as_before"), a, name="diamond"))
    return query.diagram()


def script(random: Random, pushes: int) -> list[Push]:
    """Ties, times at a punctuation, late rows, one lane far ahead, one idle, boundaries, and the end of every lane."""
    lanes: tuple[Lane, ...] = (("a", None), ("b", "left"), ("b", "right"))
    reached = dict.fromkeys(lanes, 0.0)
    steps: list[Push] = []
    for number in range(pushes):
        if number in (pushes // 3, pushes * 2 // 3):
            second = math.ceil(max(reached.values()) / 2) * 2
            steps += _moment(lanes, second * 1_000_000 + (0 if number == pushes // 3 else 500))
            reached = dict.fromkeys(lanes, float(second))
        awake = lanes if number > pushes // 4 else lanes[:2]
        source, producer = random.choice(awake) if random.random() < 0.4 else min(awake, key=reached.__getitem__)
        now = reached[source, producer]
        if random.random() < 0.1:
            time_us = _us(START) + round(now * 1e6) + random.choice((0, 1, 500))
            steps.append(Push(source=source, producer=producer, boundary_us=time_us))
        else:
            rows = [_row(random, now + _offset(random, source)) for _ in range(random.randint(1, 8))]
            if source == "b":  # no disorder is allowed there: unsorted, most of its rows were late
                rows.sort(key=lambda row: row["at"])  # type: ignore[arg-type, return-value]
            steps.append(Push(source=source, producer=producer, rows=tuple(rows)))
        far = 9.0 if source == "b" and random.random() < 0.3 else 1.5
        reached[source, producer] = now + random.choice((0.0, 0.5, 1.0, 2.0, far))
    return [*steps, *[Push(source=source, producer=producer, close=True) for source, producer in lanes]]


def _moment(lanes: Sequence[Lane], after_us: int) -> Iterator[Push]:
    """All lanes reach the same moment, and everything is worked off there: windows end at it, or just before."""
    for lane in lanes:
        yield Push(source=lane[0], producer=lane[1], boundary_us=_us(START) + after_us, settle=lane is lanes[-1])


def _offset(random: Random, source: str) -> float:
    """Most rows lie on a grid of half seconds, so that there are ties and times that equal a punctuation."""
    back = (-3.0, -1.0, -0.5) if source == "a" else (-0.5,)
    return random.choice((*back, 0.0, 0.0, 0.5, 0.000001, 0.0005))


def _row(random: Random, second: float) -> dict[str, object]:
    at = START + timedelta(seconds=max(0.0, second))
    return {"k": random.choice(KEYS), "x": random.choice(NUMBERS), "f": random.choice(FLOATS), "at": at}


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)

"""One run: a query in two replicated layers, producers, a client, faults, and everything checked.

The diagram has what is hard about racing: two sources, one of them with two lanes that fall silent in turn, a Join
whose replicas emit in other orders, and windows above it that close by punctuation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from anabranch.model.names import internal_stream, lane_origin
from anabranch.query.boxes import Arrow, Diagram
from anabranch.query.builder import Query
from anabranch.query.graph import origins, stages
from anabranch.reference.tuples import Tuple
from anabranch.sim.checkers.liveness import Liveness
from anabranch.sim.checkers.memory import Memory
from anabranch.sim.checkers.punctuation import Punctuation
from anabranch.sim.checkers.transparency import Transparency
from anabranch.sim.checkers.trimming import Trimming
from anabranch.sim.faults import Fault, Trouble, random_troubles
from anabranch.sim.network import Network
from anabranch.sim.node import FULL, Node, Protocol, Role
from anabranch.sim.observer import Broken, Observer
from anabranch.sim.producer import Producer
from anabranch.sim.truth import Entry, Truth
from anabranch.sim.world import MS, SECOND, World

ENTRY, CLIENT = "entry", "client"
JOINERS, SUMMERS = ("join-1", "join-2"), ("sum-1", "sum-2")
HEALED_US: Final = 32 * SECOND
PATIENCE_US: Final = 90 * SECOND
ONE_BATCH: Final = 300
"""Results of one batch at most: it is logged whole, however little room is left."""
BEGIN_US: Final = 1_700_000_000 * SECOND
"""Stream time at the beginning of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run was, and whether it held."""

    seed: int
    broken: str | None
    troubles: tuple[Trouble, ...]
    tuples: int
    """That the client got."""
    rebuilds: int
    cuts: int
    finished_us: int
    trace: tuple[str, ...]

    @property
    def faults(self) -> Counter[str]:
        return Counter(str(trouble.fault) for trouble in self.troubles)


@lru_cache(maxsize=1)
def diagram() -> Diagram:
    query = Query("simulated")
    left = query.source("left", "k int, x int, at timestamp", time="at", producers=("p", "q"))
    right = query.source("right", "k2 int, y int, since timestamp", time="since")
    pairs = left.filter("x >= 0", name="wanted").join(right, on="k = k2", within="2s", name="pairs")
    query.output("pairs_out", pairs.map("k, x, y", name="short"))
    query.output("sums", pairs.aggregate("count(*) AS n, sum(y) AS total", by="k", window="4s", name="totals"))
    return query.checked()


def simulate(
    seed: int,
    *,
    faults: Iterable[Fault] = tuple(Fault),
    protocol: Protocol | None = None,
    troubles: Sequence[Trouble] | None = None,
    limit: int | None = None,
) -> Report:
    """The run of this seed; what breaks is in the report. ``troubles`` and the ``limit`` of the logs replace what the
    seed would draw: that makes a scenario."""
    return _Run(seed, frozenset(faults), protocol or Protocol(), troubles, limit).report()


class _Run:
    def __init__(
        self,
        seed: int,
        kinds: frozenset[Fault],
        protocol: Protocol,
        troubles: Sequence[Trouble] | None,
        limit: int | None,
    ) -> None:
        self._seed = seed
        self._world = World(seed)
        drawn = self._world.random.choice((25, 60, 1_000))
        self._limit = limit or drawn
        self._entries = _entries(self._world)
        roles = _roles(self._limit)
        self._truth = Truth.of(diagram(), self._entries)
        self._liveness = Liveness(self._truth)
        checkers = [
            Transparency(self._truth),
            Punctuation(self._truth),
            Trimming(self._truth),
            Memory(self._truth, FULL * self._limit + ONE_BATCH, roles[CLIENT].origins),
            self._liveness,
        ]
        self._observer = Observer(checkers)
        self._network = Network(self._world)
        self._nodes = {
            name: Node(name, role, self._world, self._network, self._observer, protocol) for name, role in roles.items()
        }
        fragments = (JOINERS, SUMMERS)
        drawn_troubles = random_troubles(self._world, fragments, (ENTRY,), CLIENT, kinds)
        self._troubles = drawn_troubles if troubles is None else list(troubles)

    def report(self) -> Report:
        broken = None
        try:
            self._go()
        except Broken as error:
            broken = str(error)
            self._world.tell("checker", broken)
        except Exception as error:  # a rule of the core that does not hold is as good as a checker
            broken = f"{type(error).__name__}: {error}"
            self._world.tell("core", broken)
        got = sum(len(passed) for passed in self._observer.passed_by(CLIENT).values())
        return Report(
            seed=self._seed,
            broken=broken,
            troubles=tuple(self._troubles),
            tuples=got,
            rebuilds=self._observer.rebuilds,
            cuts=self._observer.cuts,
            finished_us=self._world.now_us,
            trace=tuple(self._world.trace),
        )

    def _go(self) -> None:
        for node in self._nodes.values():
            node.start()
        for origin in sorted({entry.origin for entry in self._entries}):
            mine = [entry for entry in self._entries if entry.origin == origin]
            Producer(self._world, self._nodes[ENTRY], mine).go_on()
        for trouble in self._troubles:
            self._world.after(trouble.at_us, lambda trouble=trouble: self._begin(trouble))  # type: ignore[misc]
        self._world.run_until(HEALED_US)
        while self._world.now_us < PATIENCE_US and not self._complete():
            self._world.run_until(self._world.now_us + SECOND)
        client = self._nodes[CLIENT].disk
        self._liveness.complete(CLIENT, list(client.tapes.values()), self._observer.passed_by(CLIENT))

    def _complete(self) -> bool:
        client = self._nodes[CLIENT].disk
        passed = self._observer.passed_by(CLIENT)
        return all(
            len(passed.get(stream, ())) >= len(self._truth.tuples[stream])
            and dict(tape.promises) == dict(self._truth.promises[stream])
            for stream, tape in client.tapes.items()
        )

    # --- faults ----------------------------------------------------------------------------------------------------

    def _begin(self, trouble: Trouble) -> None:
        self._world.tell("fault", str(trouble))
        node = self._nodes[trouble.node]
        match trouble.fault:
            case Fault.CRASH | Fault.ENTRY_CRASH:
                node.crash()
                self._world.after(trouble.for_us, lambda: None if node.up else node.start())
            case Fault.DISK_LOSS:
                node.crash(lose_disk=self._survives_without(node.name))
                self._world.after(trouble.for_us, lambda: None if node.up else node.start())
            case Fault.DEAD_FOR_EVER:
                node.crash()
            case Fault.PAUSE:
                node.pause()
                self._world.after(trouble.for_us, node.resume)
            case Fault.SLOW_NODE:
                node.slow_down(10)
                self._world.after(trouble.for_us, lambda: node.slow_down(1))
            case Fault.BROKEN_CONNECTION | Fault.CUT | Fault.SLOW_LINK:
                self._spoil_link(trouble)

    def _survives_without(self, lost: str) -> bool:
        """Whether each fragment has a replica left that can go on: more than that is not promised."""
        return all(
            any(self._nodes[name].whole_without(lost) for name in replicas if name != lost)
            for replicas in (JOINERS, SUMMERS)
        )

    def _spoil_link(self, trouble: Trouble) -> None:
        assert trouble.other is not None
        pair = trouble.node, trouble.other
        match trouble.fault:
            case Fault.BROKEN_CONNECTION:
                self._network.break_connection(*pair)
            case Fault.CUT:
                self._network.cut(*pair)
            case _:
                self._network.slow_down(*pair, 20)
        self._world.after(trouble.for_us, lambda: self._network.heal(*pair))


def _roles(limit: int) -> dict[str, Role]:
    """Who runs what, with logs of this limit."""
    query = diagram()
    by_name = {stage.name: stage for stage in stages(query)}
    joined = internal_stream("pairs")
    codes = {
        "left": origins(query, Arrow("left")),
        "right": origins(query, Arrow("right")),
        joined: origins(query, Arrow("pairs")),
        "pairs_out": origins(query, Arrow("pairs")),
        "sums": origins(query, Arrow("totals")),
    }
    tables = {stream: tuple(sorted(found)) for stream, found in codes.items()}

    def role(**what: object) -> Role:
        return Role(diagram=query, origins=tables, clients=frozenset({CLIENT}), limit=limit, **what)  # type: ignore[arg-type]

    roles = {ENTRY: role(sources=("left", "right"), readers={"left": JOINERS, "right": JOINERS})}
    for name in JOINERS:
        roles[name] = role(
            stages=(by_name["pairs"],),
            upstream={"left": (ENTRY,), "right": (ENTRY,)},
            readers={joined: SUMMERS, "pairs_out": (CLIENT,)},
            peers=tuple(peer for peer in JOINERS if peer != name),
        )
    for name in SUMMERS:
        roles[name] = role(
            stages=(by_name["totals"],),
            upstream={joined: JOINERS},
            readers={"sums": (CLIENT,)},
            peers=tuple(peer for peer in SUMMERS if peer != name),
        )
    roles[CLIENT] = role(upstream={"pairs_out": JOINERS, "sums": SUMMERS})
    return roles


def _entries(world: World) -> list[Entry]:
    """What the producers push, lane by lane: rows with ties and disorder within what is promised, and silences."""
    random = world.random
    entries: list[Entry] = []
    for source, lane in (("left", "p"), ("left", "q"), ("right", "0")):
        origin = lane_origin(source, lane)
        number, at_us, time_us = 0, 0, BEGIN_US
        silence = random.randrange(2, 20)
        for index in range(24):
            at_us += random.randrange(200, 1_400) * MS + (5 * SECOND if index == silence else 0)
            rows = []
            for _ in range(random.randrange(4)):
                number += 1
                stime = time_us + random.randrange(0, 1_000) * MS
                rows.append(Tuple(origin=origin, stime=stime, tid=number, values=_values(source, random, stime)))
            time_us += random.randrange(0, 1_000) * MS
            entries.append(_entry(at_us, source, origin, rows, time_us))
    return sorted(entries, key=lambda entry: (entry.at_us, entry.origin))


def _entry(at_us: int, source: str, origin: str, rows: Sequence[Tuple], promise_us: int) -> Entry:
    return Entry(at_us=at_us, source=source, origin=origin, tuples=tuple(rows), promise_us=promise_us)


def _values(source: str, random: object, stime: int) -> dict[str, object]:
    key, value = random.randrange(3), random.randrange(-2, 10)  # type: ignore[attr-defined]
    return {"k": key, "x": value, "at": stime} if source == "left" else {"k2": key, "y": value, "since": stime}

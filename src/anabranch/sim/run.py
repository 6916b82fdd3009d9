"""One run: a query in replicated layers, entry points, producers, a client, faults, and everything checked.

The query has what is hard about racing: two sources, one of them with two lanes that fall silent in turn, a Join
whose replicas emit in other orders, and windows above it that close by punctuation; or other boxes in their places,
also those that depend on the order of tuples (``diagrams``). Who runs what of it is a ``Topology``.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random
from typing import Final

from anabranch.core.output import held_back_us
from anabranch.model.times import CLOSED_US
from anabranch.reference.tuples import Tuple
from anabranch.sim import messages as say
from anabranch.sim.checkers.agreement import Agreement
from anabranch.sim.checkers.ahead import Ahead
from anabranch.sim.checkers.beginnings import Beginnings
from anabranch.sim.checkers.entrance import check_entrance
from anabranch.sim.checkers.liveness import Probe, check_all_entered, check_complete, check_no_stall
from anabranch.sim.checkers.memory import Memory
from anabranch.sim.checkers.punctuation import check_punctuation
from anabranch.sim.checkers.rejoining import Rejoining
from anabranch.sim.checkers.steady import Steady
from anabranch.sim.checkers.taking import Taking
from anabranch.sim.checkers.transparency import check_transparency
from anabranch.sim.checkers.trimming import Trimming
from anabranch.sim.checkers.turns import Turns
from anabranch.sim.checkers.undisturbed import Undisturbed
from anabranch.sim.diagrams import PAIRINGS, SUMMINGS, THIRDS, simulated
from anabranch.sim.faults import Fault, Trouble, random_troubles
from anabranch.sim.feed import TAKEOVER_US, Feed, FeedCopy, feed_of
from anabranch.sim.network import Network
from anabranch.sim.node import Node
from anabranch.sim.observer import Broken, Observer, Watcher
from anabranch.sim.plain_client import Closer, PlainClient
from anabranch.sim.producer import Producer
from anabranch.sim.role import FULL, Protocol, Role
from anabranch.sim.topology import CLIENT, Topology
from anabranch.sim.truth import Truth
from anabranch.sim.world import MS, SECOND, World

Pusher = Producer | PlainClient | Feed

OWNED: Final = "right/0"
FED: Final = ("left/p", "left/q")
LANES: Final = (*FED, OWNED)
PLAIN_CLIENTS: Final = 2
PROBE_US: Final = 500 * MS
HEALED_US: Final = 32 * SECOND
PATIENCE_US: Final = 90 * SECOND
ONE_BATCH: Final = 300
"""Results of one batch at most: it is logged whole, however little room is left."""
LATE_US: Final = 15 * SECOND
"""How much later a lane begins than the others, if it begins late."""
HORIZONS_US: Final = (None, 1_500 * MS, 3_000 * MS)
"""Of stream time: a lane that falls silent is overtaken by about 3 s."""
UP_US: Final = 10 * SECOND
"""How much later a host comes up, if hosts come up one after another."""
BEGIN_US: Final = 1_700_000_000 * SECOND
"""Stream time at the beginning of a run."""
LANE_LIMITS: Final = (3, 8)
"""Entries: a lane has about one in a second, and an entry point is away for up to three."""
CLOSE: Final = say.Pushed(tuples=(), promise_us=CLOSED_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is given in a run, apart from its faults."""

    limit: int | None = None
    """Tuples that a log may hold; None for what the seed draws."""
    lane_limit: int = 1_000
    """Entries that a lane keeps for an entry point that is away."""
    horizon_us: int | None = None
    """How far a lane may be ahead of the slowest."""
    owned: bool = False
    """Whether the entry points number the lane of ``right``, for plain clients."""
    standby: bool = False
    """Whether it is numbered for a feed that two or three entry points have; with ``owned``, beside plain clients."""
    fed: bool = False
    """Whether the lanes of ``left`` are fed: each by a producer inside of one entry point, which asks no other."""
    shared: bool = False
    """Whether there are three hosts, each of them an entry point and a replica of one or two fragments."""
    begins_late: str | None = None
    """The lane to which nobody has anything to say for the first 15 s."""
    first: str = "join"
    second: str = "aggregate"
    """The boxes that the replicas compute: ``diagrams`` has them."""
    third: str | None = None
    """A box behind both, where the topology is drawn."""
    two_ways: bool = False
    """Whether some tuples of ``left`` come to the first box by two ways."""
    greets: bool = False
    """Whether entry points find out from each other who is new, and who has lost its disk. Else they know it."""
    refuses: bool = False
    """Whether it is noticed that a process is not there; else it is as if its machine were gone."""
    up_late: bool = False
    """Whether hosts come up one after another."""
    topology: int | None = None
    """The seed from which it is drawn who runs what; None for the classic topology."""

    @classmethod
    def drawn(cls, seed: int) -> Setting:
        """With any topology, and in a quarter of the runs with the classic one."""
        classic = cls.classic(seed)
        if Random(f"whose topology {seed} has").randrange(4) == 0:
            return classic
        return replace(
            classic,
            shared=False,
            third=Random(f"the third box of {seed}").choice((None, *THIRDS)),
            two_ways=Random(f"the ways to the first box of {seed}").choice((False, True)),
            greets=True,
            refuses=True,
            up_late=Random(f"when hosts come up in {seed}").choice((False, True)),
            topology=seed,
        )

    @classmethod
    def classic(cls, seed: int) -> Setting:
        """Each drawn apart, so that one more changes nothing of the others."""
        owned = Random(f"the owner of {seed}").choice((False, True))
        return cls(
            lane_limit=Random(f"the lanes of {seed}").choice(LANE_LIMITS),
            horizon_us=Random(f"the horizon of {seed}").choice(HORIZONS_US),
            owned=owned,
            standby=Random(f"the second feed of {seed}").choice((False, True)),
            fed=Random(f"the feeds of {seed}").choice((False, True)),
            shared=Random(f"shared hosts in {seed}").choice((False, False, True)),
            begins_late=Random(f"who begins late in {seed}").choice((*[None] * 5, *LANES)),
            first=Random(f"the first box of {seed}").choice((*PAIRINGS, "join", "join")),
            second=Random(f"the second box of {seed}").choice((*SUMMINGS, *["aggregate"] * 3)),
        )

    def placed(self) -> Topology:
        """The query, and who runs what of it."""
        diagram = simulated(self.first, self.second, self.third, two_ways=self.two_ways)
        if self.topology is None:
            return Topology.classic(diagram, shared=self.shared)
        return Topology.drawn(diagram, Random(f"the topology of {self.topology}"))


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
    rejoined: int
    """How often an entry point that had lost its disk counted again for a lane."""
    held_back: int
    """How often a lane had to wait at the horizon."""
    holes: int
    """How often an entry point went on with a lane behind entries that its peers had forgotten."""
    moved: int
    """How often a plain client went on at another entry point, under the same session."""
    repeated: int
    """How often a lane knew again what a plain client said."""
    takeovers: int
    """How often a copy of a feed began to bring rows."""
    finished_us: int
    trace: tuple[str, ...]

    @property
    def faults(self) -> Counter[str]:
        return Counter(str(trouble.fault) for trouble in self.troubles)


def simulate(
    seed: int,
    *,
    faults: Iterable[Fault] = tuple(Fault),
    protocol: Protocol | None = None,
    troubles: Sequence[Trouble] | None = None,
    setting: Setting | None = None,
) -> Report:
    """The run of this seed; what breaks is in the report. ``troubles`` and ``setting`` replace what the seed would
    draw: that makes a scenario."""
    setting = setting or Setting.drawn(seed)
    with _without_collector():
        return _Run(seed, frozenset(faults), protocol or Protocol(), troubles, setting).report()


@contextmanager
def _without_collector() -> Iterator[None]:
    """A run makes millions of values that end when nobody has them any more; to look for cycles among them all the
    time would be a fifth of the work. What is left of the run is collected when it is over."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Run:
    def __init__(
        self,
        seed: int,
        kinds: frozenset[Fault],
        protocol: Protocol,
        troubles: Sequence[Trouble] | None,
        setting: Setting,
    ) -> None:
        self._seed = seed
        self._world = World(seed)
        drawn_limit = self._world.random.choice((25, 60, 1_000))
        limit, lane_limit, horizon_us = setting.limit or drawn_limit, setting.lane_limit, setting.horizon_us
        self._owned = (OWNED,) if setting.owned or setting.standby else ()
        self._fed = FED if setting.fed else ()
        self._topology = topology = setting.placed()
        self._diagram = topology.diagram
        self._world.tell("run", f"a {setting.first} and a {setting.second} behind it")
        for line in topology.told() if setting.topology is not None else ():
            self._world.tell("run", line)
        roles = topology.roles(
            limit=limit, lane_limit=lane_limit, horizon_us=horizon_us, owned=self._owned, greets=setting.greets
        )
        origins = topology.plan.origins
        self._agreement = Agreement()
        watchers: list[Watcher] = [
            self._agreement,
            Beginnings(topology.lanes),
            Trimming(),
            Memory(FULL * limit + ONE_BATCH, lane_limit, origins),
        ]
        ahead: Ahead | None = None
        if horizon_us is not None:
            self._world.tell("run", f"no lane is ahead of the slowest by more than {horizon_us / SECOND} s")
            ahead = Ahead(
                self._agreement,
                topology.lanes,
                {source: topology.behind(source) for source in topology.entries},
                {name: _readers(name, roles[name]) for name in topology.entry_points},
                origins,
                horizon_us=horizon_us,
                held_back_us=held_back_us(self._diagram),
            )
            watchers.append(ahead)
        self._steady = Steady()
        undisturbed = Undisturbed()
        self._observer = Observer(self._world, [*watchers, undisturbed], self._steady, undisturbed, ahead)
        self._network = Network(self._world, refuses=setting.refuses)
        self._closes = horizon_us is not None
        """Whether a producer closes its lane in the end: else the others would wait for it at the horizon."""
        self._nodes = {
            name: Node(name, role, self._world, self._network, self._observer, protocol) for name, role in roles.items()
        }
        self._turns = Turns()
        self._begins_late = setting.begins_late
        self._up_late = setting.up_late
        self._standby = setting.standby
        self._beside = setting.owned
        self._protocol = protocol
        self._hosts = topology.hosts
        if setting.shared:
            self._world.tell("run", "entry points are replicas")
        for name, node in self._nodes.items():
            node.neighbours = [self._nodes[each] for each in self._hosts[name] if each != name]
        self._dead: set[tuple[str, ...]] = set()
        """Hosts that are not to come back."""
        self._producers: dict[str, Pusher | Closer] = {producer.name: producer for producer in self._make_producers()}
        self._probes: list[Probe] = []
        self._taking = Taking()
        self._rejoining = Rejoining()
        self._known: tuple[int, Truth] | None = None
        plain = tuple(client.name for client in self._clients() if isinstance(client, PlainClient))
        drawn = random_troubles(self._world, topology, tuple(self._producers), plain, kinds)
        self._troubles = drawn if troubles is None else list(troubles)

    def report(self) -> Report:
        broken = None
        try:
            self._go()
            self._judge()
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
            rejoined=self._observer.rejoined,
            held_back=self._observer.held_back,
            holes=self._observer.holes,
            moved=self._observer.moves,
            repeated=self._observer.repeated,
            takeovers=self._turns.takeovers,
            finished_us=self._world.now_us,
            trace=tuple(self._world.trace),
        )

    def _go(self) -> None:
        self._come_up()
        for producer in self._producers.values():
            producer.start()
        for trouble in self._troubles:
            self._world.after(trouble.at_us, lambda trouble=trouble: self._begin(trouble))  # type: ignore[misc]
        self._probe()
        self._world.run_until(HEALED_US)
        for producer in list(self._producers.values()):
            if producer.dead and producer.origin not in self._owned:
                self._close(producer.origin)
        while self._world.now_us < PATIENCE_US and not self._complete():
            self._world.run_until(self._world.now_us + SECOND)

    def _come_up(self) -> None:
        """All hosts at once, or one after another."""
        random = Random(f"when hosts come up in {self._seed}")
        late_us = {host: random.randrange(UP_US) for host in dict.fromkeys(self._hosts.values()) if host != (CLIENT,)}
        for name, node in self._nodes.items():
            if self._up_late and name != CLIENT:
                self._world.after(late_us[self._hosts[name]], lambda node=node: self._start_again([node]))  # type: ignore[misc]
            else:
                node.start()

    def _truth(self) -> Truth:
        """Of what was released so far."""
        entries = sum(map(len, self._agreement.released.values()))
        if self._known is None or self._known[0] != entries:
            self._known = entries, Truth.of(self._diagram, self._topology.arrows, self._agreement.released)
        return self._known[1]

    def _judge(self) -> None:
        truth = self._truth()
        check_transparency(truth, self._observer.noted)
        check_punctuation(truth, self._observer.noted)
        check_no_stall(self._probes)
        for origin in self._owned:
            said = {client.name: client.said for client in self._clients()}
            accepted = {client.name: client.accepted for client in self._clients()}
            check_entrance(origin, self._agreement.released.get(origin, ()), said, accepted)
        check_all_entered([producer.name for producer in self._producers.values() if not producer.done])
        client = self._nodes[CLIENT].process.disk
        check_complete(truth, CLIENT, client.tapes, self._observer.passed_by(CLIENT))

    def _complete(self) -> bool:
        """Whether all that was pushed has come out, as far as it can be seen without computing it."""
        if not all(producer.done for producer in self._producers.values()):
            return False
        truth = self._truth()
        client, passed = self._nodes[CLIENT].process.disk, self._observer.passed_by(CLIENT)
        return all(
            len(passed.get(stream, ())) >= len(truth.tuples[stream])
            and dict(tape.promises) == dict(truth.promises[stream])
            for stream, tape in client.tapes.items()
        )

    # --- looking ---------------------------------------------------------------------------------------------------

    def _probe(self) -> None:
        released = self._agreement.released
        entered = min((released[lane][-1].promise_us if released.get(lane) else 0) for lane in self._topology.lanes)
        client = self._nodes[CLIENT]
        promised = min(
            client.process.disk.tapes[stream].promises.get(origin, 0)
            for stream in client.role.upstream
            for origin in client.role.origins[stream]
        )
        probe = Probe(
            at_us=self._world.now_us,
            lives=self._path_lives(),
            entered_us=(entered - held_back_us(self._diagram)) // MS * MS,
            came_out_us=promised,
        )
        self._probes.append(probe)
        self._look_who_waits()
        self._look_who_learns()
        self._close_owned()
        self._world.after(PROBE_US, self._probe)

    def _look_who_waits(self) -> None:
        for producer in self._producers.values():
            if not isinstance(producer, Closer):
                waits_since_us = producer.waits_since_us if self._may_be_taken(producer) else None
                self._taking.look(self._world.now_us, producer.name, producer.origin, waits_since_us)

    def _look_who_learns(self) -> None:
        for source, entries in self._topology.entries.items():
            nodes = [self._nodes[name] for name in entries]
            there = all(node.process.awake and not node.process.starved for node in nodes) and all(
                self._network.talk(one, other) for one, other in combinations(entries, 2)
            )
            for node in nodes:
                waits = there and not node.counts(source)
                self._rejoining.look(self._world.now_us, node.name, source, waits=waits)

    def _may_be_taken(self, producer: Pusher) -> bool:
        """Whether a majority of entry points lives and talks, to each other and to the producer, and has room.

        A plain client must reach all that live, because one of them leads. Entry points do not pass its rows on, and a
        lane that others use is not moved for one of them: who does not reach the leader waits for as long as its link
        is bad, which may be longer than any bound.
        """
        source = self._topology.lanes[producer.origin]
        entries = self._topology.entries[source]
        live = [name for name in entries if self._takes(self._nodes[name], producer.origin, source)]
        there = [name for name in live if self._network.talk(producer.name, name)]
        if isinstance(producer, PlainClient) and there != live:
            return False
        majority = len(entries) // 2 + 1
        together = [
            name
            for name in there
            if sum(self._network.talk(name, other) for other in there if other != name) + 1 >= majority
        ]
        if isinstance(producer, Feed) and not producer.is_there(together):
            return False
        return len(together) >= majority and all(name in together for name in producer.needs)

    def _takes(self, node: Node, origin: str, source: str) -> bool:
        process = node.process
        if not process.awake or process.starved or not node.takes_part(source) or process.disk.lanes[origin].learns:
            return False
        return not node.role.is_full(process.memory.tapes[source])

    def _path_lives(self) -> bool:
        """Whether there is a way from an entry point to the client on which everybody is there and has everything."""
        there = set(self._topology.entry_points)
        for replicas in self._topology.fragments:
            nodes = [self._nodes[name] for name in replicas]
            there |= {node.name for node in nodes if self._works(node) and _reads_from(node, there)}
        return _reads_from(self._nodes[CLIENT], there)

    def _works(self, node: Node) -> bool:
        return not node.process.slow and node.whole_without(frozenset())

    # --- pushing ---------------------------------------------------------------------------------------------------

    def _make_producers(self) -> list[Pusher]:
        producers: list[Pusher] = []
        for number, (origin, source) in enumerate(self._topology.lanes.items()):
            entry_points = _beginning(self._topology.entries[source], number)
            entries = _entries(self._world.random, origin, source)
            if origin == self._begins_late:
                entries = [(at_us + LATE_US, entry) for at_us, entry in entries]
            if origin in self._owned:
                producers += self._make_owners(origin, entries)
                continue
            if self._closes:
                entries.append((entries[-1][0], CLOSE))
            name = f"producer-{number + 1}"
            if origin in self._fed:
                name, entry_points = f"feed-{number + 1}", entry_points[:1]
            producers.append(Producer(name, origin, self._world, self._network, entry_points, entries))
        return producers

    def _make_owners(self, origin: str, entries: Sequence[tuple[int, say.Pushed]]) -> list[PlainClient | Feed]:
        """Who has something to say to a lane that its entry points number: a feed, clients, or both."""
        if not self._standby:
            return [*self._make_clients(origin, entries)]
        fed = entries[::2] if self._beside else entries
        clients = self._make_clients(origin, entries[1::2]) if self._beside else []
        return [self._make_feed(origin, fed), *clients]

    def _make_clients(self, origin: str, entries: Sequence[tuple[int, say.Pushed]]) -> list[PlainClient]:
        """They say the rows of these entries, each of them some."""
        rows: list[list[tuple[int, say.Row]]] = [[] for _ in range(PLAIN_CLIENTS)]
        for number, (at_us, entry) in enumerate(entries):
            said = [(at_us, say.Row(time_us=each.stime, values=each.values)) for each in entry.tuples]
            rows[number % PLAIN_CLIENTS] += said
        return [
            PlainClient(
                f"plain-{number + 1}",
                origin,
                self._world,
                self._network,
                self._observer,
                _beginning(self._entries_of(origin), number),
                each,
            )
            for number, each in enumerate(rows)
        ]

    def _make_feed(self, origin: str, entries: Sequence[tuple[int, say.Pushed]]) -> Feed:
        """It says all of them, from whichever of its hosts."""
        rows = [
            (at_us, say.Row(time_us=each.stime, values=each.values))
            for at_us, entry in entries
            for each in entry.tuples
        ]
        feed = Feed("feed", origin, self._world, self._network, self._turns)
        known = self._entries_of(origin)
        hosts = known[: Random(f"the homes of the feed of {self._seed}").choice((2, 3))]
        for number, host in enumerate(hosts):
            lease = self._protocol.lease(host, hosts, TAKEOVER_US)
            points = _beginning(known, number)
            process = self._nodes[host].process
            feed.copies.append(FeedCopy(feed, process, lease, self._network, self._observer, points, rows))
        return feed

    def _entries_of(self, origin: str) -> tuple[str, ...]:
        return self._topology.entries[self._topology.lanes[origin]]

    def _clients(self) -> list[PlainClient | Feed]:
        return [producer for producer in self._producers.values() if isinstance(producer, PlainClient | Feed)]

    def _close_owned(self) -> None:
        """An operator ends a lane whose clients have nothing more to say: else the others would wait for it."""
        for origin in self._owned if self._closes else ():
            clients = [client for client in self._clients() if client.origin == origin]
            if _operator(origin) not in self._producers and all(client.done for client in clients):
                self._close(origin)

    def _close(self, origin: str) -> None:
        """An operator ends the lane of a producer that will not come back."""
        name, entries = _operator(origin), self._entries_of(origin)
        operator: Producer | Closer
        if origin in self._owned:
            operator = Closer(name, origin, self._world, self._network, entries)
        else:
            operator = Producer(name, origin, self._world, self._network, entries, [(0, CLOSE)], first=None)
        self._producers[name] = operator
        self._world.tell("operator", f"closes {origin}")
        operator.start()

    # --- faults ----------------------------------------------------------------------------------------------------

    def _begin(self, trouble: Trouble) -> None:
        self._world.tell("fault", str(trouble))
        self._disturbed(trouble, over_us=self._world.now_us + trouble.for_us)
        self._world.after(trouble.for_us, lambda: self._disturbed(trouble, over_us=self._world.now_us))
        match trouble.fault:
            case Fault.BROKEN_CONNECTION | Fault.CUT | Fault.SLOW_LINK:
                self._spoil_link(trouble)
            case Fault.PRODUCER_PAUSE:
                producer = self._pusher(trouble.node)
                producer.sleep()
                self._world.after(trouble.for_us, producer.wake)
            case Fault.PRODUCER_RESTART:
                self._pusher(trouble.node).restart()
            case Fault.PRODUCER_DEAD:
                self._pusher(trouble.node).die()
            case Fault.SITE_DEAD:
                producer = self._pusher(trouble.node)
                if not isinstance(producer, Feed):  # another host goes on with it
                    producer.die()
                self._end(self._nodes[producer.entry_point])
            case _:
                self._hit([self._nodes[name] for name in self._hosts[trouble.node]], trouble)

    def _disturbed(self, trouble: Trouble, *, over_us: int) -> None:
        """Something begins, or is over, that concerns who enters rows: the time to take them counts from here."""
        struck = [name for name in (trouble.node, trouble.other) if name is not None]
        for name in struck:
            for each in self._hosts.get(name, (name,)):
                if isinstance(self._producers.get(feed_of(each)), Feed):
                    self._turns.disturbed(each, over_us)
                if each in (*self._topology.entry_points, *self._producers):
                    self._taking.disturbed(self._world.now_us)
                    self._steady.disturbed(each, over_us)
                    self._turns.disturbed(each, over_us)

    def _pusher(self, name: str) -> Pusher:
        producer = self._producers[name]
        assert not isinstance(producer, Closer)
        return producer

    def _hit(self, host: Sequence[Node], trouble: Trouble) -> None:
        """All that runs on a host has the same fate."""
        match trouble.fault:
            case Fault.CRASH | Fault.ENTRY_CRASH:
                self._crash(host, for_us=trouble.for_us)
            case Fault.DISK_LOSS | Fault.ENTRY_DISK_LOSS:
                self._crash(host, for_us=trouble.for_us, lose_disk=self._may_lose(host))
            case Fault.DEAD_FOR_EVER | Fault.ENTRY_DEAD:
                self._end(host[0])
            case Fault.PAUSE | Fault.ENTRY_PAUSE:
                for node in host:
                    node.process.pause()
                    self._world.after(trouble.for_us, node.process.resume)
            case Fault.STARVED | Fault.ENTRY_STARVED:
                for node in host:
                    node.process.starve()
                    self._world.after(trouble.for_us, node.process.feed)
            case Fault.SLOW_NODE:
                for node in host:
                    node.process.slow_down(10)
                    self._world.after(trouble.for_us, lambda node=node: node.process.slow_down(1))  # type: ignore[misc]

    def _crash(self, host: Sequence[Node], *, for_us: int, lose_disk: bool = False) -> None:
        for node in host:
            node.crash(lose_disk=lose_disk)
        self._world.after(for_us, lambda: self._start_again(host))

    def _end(self, struck: Node) -> None:
        """For ever, unless the host is needed: by a fragment, or because another entry point learns yet or is gone."""
        names = self._hosts[struck.name]
        host = [self._nodes[name] for name in names]
        if not self._may_lose(host) or not self._all_have_begun(host):
            self._crash(host, for_us=2 * SECOND)
            return
        self._dead.add(names)
        for node in host:
            node.crash()
        for producer in self._producers.values():
            if isinstance(producer, Producer) and set(producer.needs) & set(names):
                producer.die()

    def _start_again(self, host: Sequence[Node]) -> None:
        for node in host:
            if not node.process.up and self._hosts[node.name] not in self._dead:
                node.start()
        for node in host:
            if node.name in self._topology.entry_points:
                self._taking.disturbed(self._world.now_us)
                self._steady.disturbed(node.name, self._world.now_us)

    def _may_lose(self, host: Sequence[Node]) -> bool:
        """Whether the others have all that they need, and forgot nothing that they do not know again. Of three entry
        points no second one may go while another learns, or is gone for ever, and of five no third one."""
        # More is not promised: docs/replication.md assumes that no more than a minority of the entry points is without
        # what it had. An entry is acknowledged when two of three have it. If one of these is gone for ever and the
        # other loses its disk, the third may not have it: then it is lost under any rule. If it has it, who lost its
        # disk can never count again, because that takes a majority that remembers: the lane stands still, as it must.
        # A second one may crash all the same, and lose its disk when the first has learned.
        names = {node.name for node in host}
        for source, entries in self._topology.entries.items():
            away = [
                name for name in entries if name in names or self._nodes[name].learns or self._hosts[name] in self._dead
            ]
            if names.intersection(entries) and len(away) > self._topology.tolerated(source):
                return False
        return not any(node.role.stages for node in host) or self._survives_without(names)

    def _all_have_begun(self, host: Sequence[Node]) -> bool:
        """Whether no entry point waits to hear of these, as the others of a source do until they take part."""
        names = {node.name for node in host}
        return all(
            self._nodes[name].takes_part(source)
            for source, entries in self._topology.entries.items()
            for name in entries
            if names.intersection(entries)
        )

    def _survives_without(self, lost: Set[str]) -> bool:
        """Whether each fragment has a replica left that can go on, from one that can: no more is promised."""
        gone = set(lost)
        for replicas in self._topology.fragments:
            left = [name for name in replicas if name not in lost and self._nodes[name].whole_without(gone)]
            if not left:
                return False
            gone.update(name for name in replicas if name not in left)
        return True

    def _spoil_link(self, trouble: Trouble) -> None:
        assert trouble.other is not None
        ends = [self._hosts.get(name, (name,)) for name in (trouble.node, trouble.other)]
        if ends[0] == ends[1]:
            return  # a host reaches itself
        for one, other in product(*ends):
            match trouble.fault:
                case Fault.BROKEN_CONNECTION:
                    self._network.break_connection(one, other)
                case Fault.CUT:
                    self._network.cut(one, other)
                case _:
                    self._network.slow_down(one, other, 20)
            self._world.after(trouble.for_us, lambda one=one, other=other: self._network.heal(one, other))  # type: ignore[misc]


def _operator(origin: str) -> str:
    return f"operator of {origin}"


def _readers(name: str, role: Role) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The fragments that read a source at this entry point, be it one of them itself."""
    outside = role.fragments
    return {
        source: (*outside.get(source, ()), *([(name,)] if source in role.read_at_home else []))
        for source in set(role.lanes.values())
    }


def _reads_from(node: Node, there: Set[str]) -> bool:
    """Whether it reads all that it needs from some of these."""
    return all(
        any(copy in there and node.reads(stream, copy) for copy in copies)
        for stream, copies in node.role.upstream.items()
    )


def _beginning(names: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Going round from this one."""
    first = number % len(names)
    return (*names[first:], *names[:first])


def _entries(random: Random, origin: str, source: str) -> list[tuple[int, say.Pushed]]:
    """What a producer pushes, and when: rows with ties and disorder within what is promised, and one long silence."""
    number, at_us, time_us = 0, 0, BEGIN_US
    silence = random.randrange(2, 20)
    entries = []
    for index in range(24):
        at_us += random.randrange(200, 1_400) * MS + (5 * SECOND if index == silence else 0)
        rows = []
        for _ in range(random.randrange(4)):
            number += 1
            stime = time_us + random.randrange(0, 1_000) * MS
            rows.append(Tuple(origin=origin, stime=stime, tid=number, values=_values(source, random, stime)))
        time_us += random.randrange(0, 1_000) * MS
        entries.append((at_us, say.Pushed(tuples=tuple(rows), promise_us=time_us)))
    return entries


def _values(source: str, random: Random, stime: int) -> dict[str, object]:
    key, value = random.randrange(3), random.randrange(-2, 10)
    return {"k": key, "x": value, "at": stime} if source == "left" else {"k2": key, "y": value, "since": stime}

"""Faults of a run: what happens to whom, when, and for how long. Drawn from the seed, within what is promised.

Of the replicas of one fragment at most one is in trouble at a time, as long as it may have lost something: that is what
k = 1 means. Links and pauses may hit anyone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from anabranch.errors import ConfigError
from anabranch.sim.topology import CLIENT, Topology
from anabranch.sim.world import MS, SECOND, World

BEGIN_US: Final = 2 * SECOND
END_US: Final = 26 * SECOND


class Fault(Enum):
    CRASH = "crash"
    DISK_LOSS = "disk loss"
    PAUSE = "pause"
    STARVED = "starved"
    SLOW_NODE = "slow node"
    BROKEN_CONNECTION = "broken connection"
    CUT = "cut"
    SLOW_LINK = "slow link"
    ENTRY_CRASH = "entry point crash"
    ENTRY_DISK_LOSS = "entry point disk loss"
    ENTRY_PAUSE = "entry point pause"
    ENTRY_STARVED = "entry point starved"
    ENTRY_DEAD = "entry point dead for ever"
    PRODUCER_PAUSE = "producer pause"
    PRODUCER_RESTART = "producer restart"
    PRODUCER_DEAD = "producer dead for ever"
    SITE_DEAD = "producer and entry point dead for ever"
    DEAD_FOR_EVER = "dead for ever"

    def __str__(self) -> str:
        return self.value


LINKS: Final = (Fault.BROKEN_CONNECTION, Fault.CUT, Fault.SLOW_LINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One fault. ``other`` is the far end of a link."""

    fault: Fault
    at_us: int
    for_us: int
    node: str
    other: str | None = None

    def __str__(self) -> str:
        link = f" - {self.other}" if self.other else ""
        return f"{self.fault} of {self.node}{link} at {self.at_us / SECOND:.3f} s for {self.for_us / SECOND:.3f} s"


def random_troubles(
    world: World,
    topology: Topology,
    producers: tuple[str, ...],
    plain: tuple[str, ...],
    kinds: frozenset[Fault],
) -> list[Trouble]:
    """Troubles in the order of their times. ``plain`` are those of the producers that are plain clients."""
    random = world.random
    ordered = [kind for kind in Fault if kind in kinds]
    troubles: list[Trouble] = []
    for replicas in topology.fragments:
        if Fault.DEAD_FOR_EVER in kinds and random.random() < 0.15:
            at_us = random.randrange(BEGIN_US, END_US)
            node = random.choice(replicas)
            troubles.append(Trouble(fault=Fault.DEAD_FOR_EVER, at_us=at_us, for_us=0, node=node))
            continue
        now_us = BEGIN_US
        while ordered and (now_us := now_us + random.randrange(300 * MS, 6 * SECOND)) < END_US:
            of_nodes = [
                each
                for each in ordered
                if each in (Fault.CRASH, Fault.DISK_LOSS, Fault.PAUSE, Fault.STARVED, Fault.SLOW_NODE)
            ]
            if not of_nodes:
                break
            for_us = random.randrange(50 * MS, 5 * SECOND)
            fault = random.choice(of_nodes)
            troubles.append(Trouble(fault=fault, at_us=now_us, for_us=for_us, node=random.choice(replicas)))
            now_us += for_us + 4 * SECOND * (fault is Fault.DISK_LOSS)
    all_replicas = [node for replicas in topology.fragments for node in replicas]
    nodes = list(dict.fromkeys((*all_replicas, *topology.entry_points, CLIENT)))
    for kind in LINKS:
        for _ in range(random.randrange(4) if kind in kinds else 0):
            one, other = random.sample(nodes, 2)
            at_us, for_us = random.randrange(BEGIN_US, END_US), random.randrange(100 * MS, 4 * SECOND)
            troubles.append(Trouble(fault=kind, at_us=at_us, for_us=for_us, node=one, other=other))
    end_us: int | None = None
    for source, entries in topology.groups:
        for _ in range(max(1, topology.tolerated(source))):
            found, end_us = _of_entry_points(world, entries, producers, kinds, end_us)
            troubles += found
    troubles += _of_plain_clients(world, topology.entry_points, plain, kinds)
    return sorted(troubles, key=lambda trouble: trouble.at_us)


def _of_entry_points(
    world: World, entries: tuple[str, ...], producers: tuple[str, ...], kinds: frozenset[Fault], end_us: int | None
) -> tuple[list[Trouble], int]:
    """One entry point at a time is in trouble: of three, two must be there; of five three, so this is drawn twice. A
    site that dies is one of them.

    Who goes for ever goes last of all: the troubles of other entry points end with ``end_us``, too. Some of the crashes
    cost the disk. Which ones is drawn apart, so that it changes nothing else of a run.
    """
    random = world.random
    disks = Random(f"the disks of entry points in {world.seed}")
    crashes = [kind for kind in (Fault.ENTRY_CRASH, Fault.ENTRY_DISK_LOSS) if kind in kinds]
    troubles: list[Trouble] = []
    for_ever = [kind for kind in (Fault.ENTRY_DEAD, Fault.PRODUCER_DEAD, Fault.SITE_DEAD) if kind in kinds]
    last = random.choice(for_ever) if end_us is None and for_ever and random.random() < 0.5 else None
    if end_us is None:
        end_us = random.randrange(BEGIN_US, END_US) if last else END_US
    sleeps = (Fault.ENTRY_PAUSE, Fault.ENTRY_STARVED)
    passing = [*crashes[:1], *(kind for kind in sleeps if kind in kinds)]
    longest_us = random.choice((3 * SECOND, 9 * SECOND))
    now_us = BEGIN_US
    while passing and (now_us := now_us + random.randrange(300 * MS, 8 * SECOND)) < end_us - 3 * SECOND:
        for_us = random.randrange(50 * MS, longest_us)
        fault, node = random.choice(passing), random.choice(entries)
        fault = disks.choice(crashes) if fault in crashes else fault
        troubles.append(Trouble(fault=fault, at_us=now_us, for_us=for_us, node=node))
        now_us += for_us
    for kind, longest_us in ((Fault.PRODUCER_RESTART, 0), (Fault.PRODUCER_PAUSE, 6 * SECOND)):
        for _ in range(random.randrange(4) if kind in kinds else 0):
            at_us, node = random.randrange(BEGIN_US, END_US), random.choice(producers)
            for_us = random.randrange(50 * MS, longest_us) if longest_us else 0
            troubles.append(Trouble(fault=kind, at_us=at_us, for_us=for_us, node=node))
    if last is not None:
        node = random.choice(entries if last is Fault.ENTRY_DEAD else producers)
        troubles.append(Trouble(fault=last, at_us=end_us, for_us=0, node=node))
    return troubles, end_us


def _of_plain_clients(
    world: World, entries: tuple[str, ...], plain: tuple[str, ...], kinds: frozenset[Fault]
) -> list[Trouble]:
    """Their links to entry points: an answer that is lost or late makes them say again what was kept. Drawn apart."""
    random = Random(f"the links of plain clients in {world.seed}")
    passing = [kind for kind in LINKS if kind in kinds]
    troubles: list[Trouble] = []
    for node in plain:
        for _ in range(random.randrange(2, 8) if passing else 0):
            fault, other = random.choice(passing), random.choice(entries)
            at_us, for_us = random.randrange(BEGIN_US, END_US), random.randrange(500 * MS, 6 * SECOND)
            troubles.append(Trouble(fault=fault, at_us=at_us, for_us=for_us, node=node, other=other))
    return troubles


def parse_kinds(text: str | None) -> frozenset[Fault]:
    """Kinds by name, between commas; all of them for None, and none for ``none``."""
    if text is None:
        return frozenset(Fault)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return frozenset()
    known = {str(fault): fault for fault in Fault}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(
            f"There is no kind of fault {unknown[0]!r}." if unknown else "No kind of fault is given.",
            remedy=f"Choose from: {', '.join(known)}; or none.",
        )
    return frozenset(known[name] for name in names)

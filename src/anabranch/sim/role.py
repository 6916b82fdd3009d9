"""What a simulated node is for, what it stores, and the rules it goes by: plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from anabranch.core.elections import Elections
from anabranch.core.feed_lease import FeedLease
from anabranch.core.horizon import Horizon
from anabranch.core.inlet import Inlet, InletState
from anabranch.core.lane_state import LaneRules
from anabranch.core.output import held_back_us
from anabranch.core.passing import Passing
from anabranch.core.roll_call import Roll
from anabranch.core.shared_lane import LaneCopy, SharedLane
from anabranch.model.punctuation import Punctuations
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage
from anabranch.reference.stage import StageReference
from anabranch.runtime.ingest.lane_letters import LaneLetters
from anabranch.runtime.ingest.membership import Membership
from anabranch.runtime.ingest.peer_line import PeerLine
from anabranch.runtime.ingest.push_groups import PushGroups
from anabranch.runtime.part_reports import PartReports
from anabranch.sim import messages as say
from anabranch.sim.engine import Checkpoint
from anabranch.sim.tape import Tape

FULL: Final = 2
"""Times the limit: what a log holds at most, when nobody is left who could be cut off."""


def stage_reader(stage: Stage) -> str:
    return f"stage:{stage.name}"


class Disk(NamedTuple):
    """All that a node stores, as one value. A tuple, because every step of every node makes a new one."""

    life: str
    inlets: Mapping[str, InletState]
    tapes: Mapping[str, Tape]
    """Journals by the name of their stream, and logs; a stream is one or the other."""
    checkpoints: Mapping[str, Checkpoint]
    lanes: Mapping[str, LaneCopy[say.Pushed]]
    """At an entry point, by origin."""
    rolls: Mapping[str, Roll] = MappingProxyType({})
    """At an entry point, what it has written down of the others of a source, by source."""
    begun: frozenset[str] = frozenset()
    """The sources of which it takes part in the lanes."""

    def with_tape(self, tape: Tape) -> Disk:
        return self if self.tapes.get(tape.name) is tape else self._replace(tapes={**self.tapes, tape.name: tape})

    def with_inlet(self, stream: str, inlet: InletState) -> Disk:
        return self._replace(inlets={**self.inlets, stream: inlet})

    def with_checkpoint(self, stage: str, checkpoint: Checkpoint) -> Disk:
        return self._replace(checkpoints={**self.checkpoints, stage: checkpoint})

    def with_lane(self, origin: str, copy: LaneCopy[say.Pushed]) -> Disk:
        return self if self.lanes[origin] is copy else self._replace(lanes={**self.lanes, origin: copy})


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a node is for: the stages it runs, the copies it reads, and who reads it."""

    diagram: Diagram
    stages: tuple[Stage, ...] = ()
    upstream: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per stream that comes from elsewhere, the nodes that have a copy."""
    lanes: Mapping[str, str] = field(default_factory=dict)
    """At an entry point: the source of each lane, by origin."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per stream that is read elsewhere, the nodes that do."""
    fragment_of: Mapping[str, str] = field(default_factory=dict)
    """What each replica runs, by the name of a fragment."""
    peers: tuple[str, ...] = ()
    """The other replicas of its fragment: it can be rebuilt from any of them."""
    entry_peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per source that enters here, its other entry points."""
    greets: bool = False
    """Whether its entry points find out from each other whether they are new. Else they have begun, and know it when
    they have lost their disk."""
    clients: frozenset[str] = frozenset()
    limit: int = 150
    """Tuples that a log may hold before its slowest reader is cut off."""
    owned: Mapping[str, LaneRules] = field(default_factory=dict)
    """The lanes that their entry point numbers, for plain clients."""
    lane_limit: int = 1_000
    """Entries of a lane that are kept for an entry point that is away."""
    horizon_us: int | None = None
    """How far a lane may run ahead of the slowest."""

    def is_full(self, tape: Tape) -> bool:
        """Whether a log takes no more: its last reader that counts is far behind, and pushes back."""
        return tape.held >= FULL * self.limit

    def bounded(
        self, origins: Mapping[str, tuple[str, ...]], *, limit: int, lane_limit: int, horizon_us: int | None
    ) -> Role:
        """The same, with the origins of all streams, logs and lanes of these limits, and lanes that stay together."""
        return replace(self, origins=origins, limit=limit, lane_limit=lane_limit, horizon_us=horizon_us)

    @property
    def fragments(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Per stream that is read elsewhere, the replicas of each fragment that reads it. A client is none: nothing
        waits there."""
        found: dict[str, dict[str, list[str]]] = {}
        for stream, readers in self.readers.items():
            for reader in readers:
                if reader not in self.clients:
                    alike = found.setdefault(stream, {})
                    alike.setdefault(self.fragment_of.get(reader, ""), []).append(reader)
        return {stream: tuple(map(tuple, alike.values())) for stream, alike in found.items()}

    @property
    def read_at_home(self) -> frozenset[str]:
        """The sources that enter here and are read by a stage here."""
        return frozenset(self.lanes.values()) & {stream for stage in self.stages for stream in stage.inputs}

    def reports(self, name: str, protocol: Protocol, promised: Callable[[str], Punctuations]) -> PartReports:
        """Of this part, as ``name``; ``promised`` is what a stream promises that comes into it."""
        comes_in = (*self.upstream, *sorted(self.read_at_home))
        sources = sorted(set(self.lanes.values()))
        return PartReports(
            name,
            inputs={stream: self.origins[stream] for stream in comes_in},
            promised=promised,
            readers=self.fragments if self.horizon_us is not None else {},
            horizons_us=dict.fromkeys(sources, self.horizon_us) if self.horizon_us is not None else {},
            held_back_us=held_back_us(self.diagram),
            rule=protocol.horizon,
            passes_on=protocol.passes_slowest,
        )

    @property
    def stage_readers(self) -> list[str]:
        """The stages as readers of the node's own logs and journals."""
        return [stage_reader(stage) for stage in self.stages]

    def stages_reading(self, stream: str) -> list[str]:
        return [stage_reader(stage) for stage in self.stages if stream in stage.inputs]


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a node goes by. A test breaks one rule after the other, to see that it is noticed."""

    inlet: type[Inlet] = Inlet
    lane: type[SharedLane[say.Pushed]] = SharedLane
    elections: type[Elections] = Elections
    line: type[PeerLine[say.Pushed]] = PeerLine
    groups: type[PushGroups[Any]] = PushGroups
    membership: type[Membership[say.Pushed]] = Membership
    letters: type[LaneLetters[say.Pushed, say.Pushed]] = LaneLetters
    horizon: type[Horizon] = Horizon
    passing: type[Passing] = Passing
    lease: type[FeedLease] = FeedLease
    reference: type[StageReference] = StageReference
    passes_slowest: bool = True
    """Whether a node passes on how far the slowest origin is for those that read it."""
    keeps_clients: bool = True
    """Whether a new leader of an owned lane knows its clients again."""
    forgets_entries: bool = True
    """Whether an entry point forgets what all of them have released of a lane, and what is too much."""
    tells_of_holes: bool = True
    """Whether readers hear of entries that an entry point never got."""
    acknowledges_after_commit: bool = True
    spares_fragments: bool = True
    """Whether a log that is full leaves one replica of each fragment that reads it."""
    keeps_inlets: bool = True
    """Whether the state of an inlet is durable with its journal."""
    reserves: bool = True
    """Whether a rebuilt reader begins a new life and has its places reserved."""
    rebuilds_alone: bool = True
    """Whether a replica is rebuilt while all else of its host runs on."""
    keeps_neighbours: bool = True
    """Whether the state of a peer takes the place of the state of one replica, and not of all that its host has."""
    promises_in_order: bool = True
    """Whether a subscription begins with what was promised at its place, not with what is promised now."""

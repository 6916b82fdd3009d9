"""A simulated node: inlets, journals, stages and logs on a disk that syncs late, under the core's rules.

What a node does is decided by its memory; what it says to others follows from its disk: a message about a transaction
leaves when the transaction is durable. A crash returns memory to the disk; a lost disk returns it to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from anabranch.core import inlet as inlets
from anabranch.core import readers as logs
from anabranch.core import rebuild
from anabranch.core import shared_lane as lanes
from anabranch.core.identities import Header
from anabranch.core.inlet import Inlet, InletState
from anabranch.core.ledger import Decision, decide
from anabranch.core.shared_lane import LaneCopy, Leading, SharedLane
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage
from anabranch.reference.tuples import Tuple
from anabranch.sim import messages as say
from anabranch.sim.engine import Checkpoint, Engine, Plan
from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.tape import Tape
from anabranch.sim.world import MS, World

LOCAL: Final = "local"
"""The life of a stage as the reader of its node's own logs: it never loses its place alone."""

RETRY_US: Final = 500 * MS
PATIENCE_US: Final = 1_500 * MS
"""How long a rebuild waits for an answer."""
SILENT_US: Final = 2_000 * MS
"""How long a leader may be silent, at least, before somebody asks to lead in its place."""
ORPHANED_US: Final = 4_000 * MS
TRIM_US: Final = 300 * MS
BATCH_TUPLES: Final = 12
FULL: Final = 2
"""Times the limit: what a log holds at most, when nobody is left who could be cut off."""

Apply = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """All that a node stores, as one value."""

    life: str
    inlets: Mapping[str, InletState] = field(default_factory=dict)
    tapes: Mapping[str, Tape] = field(default_factory=dict)
    """Journals by the name of their stream, and logs; a stream is one or the other."""
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    lanes: Mapping[str, LaneCopy[say.Pushed]] = field(default_factory=dict)
    """At an entry point, by origin."""


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
    peers: tuple[str, ...] = ()
    clients: frozenset[str] = frozenset()
    limit: int = 150
    """Tuples that a log may hold before its slowest reader is cut off."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a node goes by. A test breaks one rule after the other, to see that it is noticed."""

    inlet: type[Inlet] = Inlet
    lane: type[SharedLane[say.Pushed]] = SharedLane
    acknowledges_after_commit: bool = True
    keeps_inlets: bool = True
    """Whether the state of an inlet is durable with its journal."""
    reserves: bool = True
    """Whether a rebuilt reader begins a new life and has its places reserved."""
    promises_in_order: bool = True
    """Whether a subscription begins with what was promised at its place, not with what is promised now."""


class Node:
    """One process with its disk. The fault methods at the end are what happens to it from outside."""

    def __init__(
        self, name: str, role: Role, world: World, network: Network, observer: Observer, protocol: Protocol
    ) -> None:
        self.name = name
        self.role = role
        self._world = world
        self._network = network
        self._observer = observer
        self._protocol = protocol
        self._inlets = {s: protocol.inlet(s, role.origins[s]) for s in role.upstream}
        self._shared = {origin: protocol.lane(name, role.peers) for origin in role.lanes}
        self._births = 0
        self._runs = 0
        self.up = False
        self._paused: list[Apply] | None = None
        self._slow = 1
        self._disk = self._memory = self._empty()
        self._durable_at = 0
        network.attach(name, self._receive, self._lost)

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._runs += 1
        self.up = True
        if not self._protocol.keeps_inlets:
            self._disk = replace(self._disk, inlets=dict.fromkeys(self._disk.inlets, inlets.NEW_READER))
        self._memory = self._disk
        self._durable_at = self._world.now_us
        self._reading: dict[tuple[str, str], bool] = {}
        self._serving: dict[tuple[str, str], tuple[int, int]] = {}
        """Per reader and stream, the first tuple that it wants, and the last segment that it was sent."""
        self._rebuilding: rebuild.RebuildState | None = None
        self._rebuild_step = 0
        self._orphaned_since: int | None = None
        self._leading: dict[str, Leading | None] = dict.fromkeys(self.role.lanes)
        self._producers: dict[str, str] = {}
        """Who pushes to a lane here."""
        self._heard_us = dict.fromkeys(self.role.lanes, self._world.now_us)
        """When a leader was last heard of."""
        self._engines = {
            stage.name: Engine(self.role.diagram, stage, self._memory.checkpoints[stage.name])
            for stage in self.role.stages
        }
        self._busy = dict.fromkeys(self._engines, False)
        self._tell("starts")
        self._every(RETRY_US, self._subscribe_all)
        self._every(TRIM_US, self._trim)
        self._every(RETRY_US, self._look_after_lanes)
        self._subscribe_all()
        for stage in self.role.stages:
            self._work(stage)

    @property
    def rebuilding(self) -> bool:
        return self.up and self._rebuilding is not None

    @property
    def slow(self) -> bool:
        return self._slow > 1

    def reads(self, stream: str, copy: str) -> bool:
        return self.healthy and bool(self._reading.get((stream, copy)))

    @property
    def healthy(self) -> bool:
        return self.up and self._paused is None and self._rebuilding is None

    def whole_without(self, lost: str) -> bool:
        """Whether it has all that it needs to go on when the disk of that node is lost."""
        return self.healthy and all(
            (live := [copy for copy in self._live(stream) if copy != lost])
            and not self._inlets[stream].orphaned(self._disk.inlets[stream], live)
            for stream in self.role.upstream
        )

    @property
    def disk(self) -> Disk:
        return self._disk

    def _empty(self) -> Disk:
        self._births += 1
        life = f"{self.name}.{self._births if self._protocol.reserves else 1}"
        tapes = {stream: Tape.new(stream, life, self._stages_reading(stream)) for stream in self.role.upstream}
        made = [target.stream for stage in self.role.stages for target in stage.targets]
        for stream in (*sorted(set(self.role.lanes.values())), *made):
            readers = [*self.role.readers.get(stream, ()), *self._stages_reading(stream)]
            tapes[stream] = Tape.new(stream, life, readers)
        return Disk(
            life=life,
            inlets=dict.fromkeys(self.role.upstream, inlets.NEW_READER),
            tapes=tapes,
            checkpoints={stage.name: Checkpoint(lineage=life) for stage in self.role.stages},
            lanes=dict.fromkeys(self.role.lanes, LaneCopy()),
        )

    def _stages_reading(self, stream: str) -> list[str]:
        return [f"stage:{stage.name}" for stage in self.role.stages if stream in stage.inputs]

    # --- transactions ----------------------------------------------------------------------------------------------

    def _transact(self, disk: Disk, then: Apply) -> None:
        """Memory has it at once; it is durable a little later, and only then ``then`` happens."""
        self._memory = disk
        run = self._runs
        delay_us = self._world.random.randrange(1, 20) * MS * self._slow
        self._durable_at = max(self._durable_at, self._world.now_us + delay_us)

        def commit() -> None:
            if self.up and self._runs == run:
                self._observer.committed(self.name, self._disk, disk)
                self._disk = disk
                then()
                self._feed_readers()

        self._world.after(self._durable_at - self._world.now_us, lambda: self._when_awake(commit))

    def _with_tape(self, disk: Disk, tape: Tape) -> Disk:
        return replace(disk, tapes={**disk.tapes, tape.name: tape})

    # --- reading ---------------------------------------------------------------------------------------------------

    def _subscribe_all(self) -> None:
        if self._rebuilding is not None:
            return
        for stream, copies in self.role.upstream.items():
            for copy in copies:
                if not self._reading.get((stream, copy)):
                    self._subscribe(stream, copy)
        self._look_for_orphans()

    def _subscribe(self, stream: str, copy: str) -> None:
        inlet = self._disk.inlets[stream]
        known = inlet.copies.get(copy)
        self._send(
            copy,
            say.Subscribe(
                stream=stream,
                life=self._disk.life,
                position=known.position if known else None,
                punctuations=inlet.punctuations,
            ),
        )

    def _answered(self, copy: str, answer: say.Answer) -> None:
        self._reading[answer.stream, copy] = True
        event = inlets.CopyAnswered(
            copy=copy,
            incarnation=answer.incarnation,
            first_id=answer.first_id,
            floors=answer.floors,
            earlier_life=answer.earlier_life,
        )
        self._into_inlet(answer.stream, event, ())

    def _arrived(self, copy: str, arrived: say.Tuples) -> None:
        codes = {origin: code for code, origin in enumerate(self.role.origins[arrived.stream])}
        event = inlets.TuplesArrived(
            copy=copy,
            incarnation=arrived.incarnation,
            first_id=arrived.first_id,
            header=Header(
                np.array([codes[each.origin] for each in arrived.tuples], np.int32),
                np.array([each.stime for each in arrived.tuples], np.int64),
                np.array([each.tid for each in arrived.tuples], np.int64),
            ),
            promises=arrived.promises,
        )
        self._into_inlet(arrived.stream, event, arrived.tuples)

    def _into_inlet(self, stream: str, event: inlets.Event, tuples: tuple[Tuple, ...]) -> None:
        """One transaction: the inlet's state and what it lets through."""
        before = self._memory.inlets[stream]
        after, actions = self._inlets[stream].handle(before, event)
        disk = replace(self._memory, inlets={**self._memory.inlets, stream: after})
        acknowledgements: list[inlets.Acknowledge] = []
        for action in actions:
            match action:
                case inlets.AppendToJournal():
                    passed = [tuples[index] for index in action.take]
                    disk = self._with_tape(disk, disk.tapes[stream].append(passed, action.punctuations))
                case inlets.Acknowledge():
                    acknowledgements.append(action)
                case inlets.SubscribeAgain():
                    self._subscribe(stream, action.copy)
                case inlets.RebuildFromPeer():
                    self._begin_rebuild(action.reason)
                    return

        def acknowledge() -> None:
            for each in acknowledgements:
                self._send(
                    each.copy,
                    say.Acknowledgement(
                        stream=stream, life=disk.life, position=each.position, punctuations=after.punctuations
                    ),
                )

        if after is before and not actions:
            return
        if not self._protocol.acknowledges_after_commit:
            acknowledge()
        self._transact(disk, acknowledge if self._protocol.acknowledges_after_commit else lambda: None)
        self._wake_stages(stream)

    def _look_for_orphans(self) -> None:
        """A replica that no live copy can serve any more waits a little, and is then built again."""
        orphaned = any(
            self._inlets[stream].orphaned(self._memory.inlets[stream], self._live(stream))
            for stream in self.role.upstream
        )
        if not orphaned:
            self._orphaned_since = None
        elif self._orphaned_since is None:
            self._orphaned_since = self._world.now_us
        elif self._world.now_us - self._orphaned_since >= ORPHANED_US:
            self._orphaned_since = None
            self._begin_rebuild("no live copy can vouch")

    def _live(self, stream: str) -> list[str]:
        """The copies that are read now."""
        return [copy for copy in self.role.upstream[stream] if self._reading.get((stream, copy))]

    # --- being read ------------------------------------------------------------------------------------------------

    def _subscribed(self, reader: str, asked: say.Subscribe) -> None:
        tape = self._memory.tapes[asked.stream]
        event = logs.ReaderSubscribed(
            reader=reader, life=asked.life, position=asked.position, punctuations=asked.punctuations
        )
        tape, (answer,) = tape.handle(event)
        assert isinstance(answer, logs.AnswerSubscription)

        def respond() -> None:
            self._send(
                reader,
                say.Answer(
                    stream=asked.stream,
                    incarnation=answer.incarnation,
                    first_id=answer.first_id,
                    floors=answer.floors,
                    earlier_life=answer.earlier_life,
                ),
            )
            held = self._disk.tapes[asked.stream]
            promises = held.promises_at(answer.first_id - 1)
            if not self._protocol.promises_in_order:
                promises = held.promises
            self._send(reader, self._tuples(asked.stream, answer.first_id, (), promises))
            self._serving[reader, asked.stream] = (answer.first_id, held.seq_at(answer.first_id - 1))

        self._transact(self._with_tape(self._memory, tape), respond)

    def _acknowledged(self, reader: str, said: say.Acknowledgement) -> None:
        tape, _ = self._memory.tapes[said.stream].handle(
            logs.ReaderAcknowledged(
                reader=reader, life=said.life, position=said.position, punctuations=said.punctuations
            )
        )
        self._memory = self._with_tape(self._memory, tape)  # durable with the next transaction

    def _reserve(self, reader: str, asked: say.Reserve) -> None:
        if self._rebuilding is not None:
            return  # it asks again, or goes on without us
        event = logs.PositionReserved(
            reader=reader, life=asked.life, like=asked.like, like_life=asked.like_life, position=asked.position
        )
        tape, _ = self._memory.tapes[asked.stream].handle(event)
        answer = say.Reserved(stream=asked.stream, life=asked.life)
        self._transact(self._with_tape(self._memory, tape), lambda: self._send(reader, answer))

    def _feed_readers(self) -> None:
        """Sends what is durable and was not sent."""
        for (reader, stream), (first_id, sent_seq) in list(self._serving.items()):
            tape = self._disk.tapes[stream]
            for segment in tape.between(sent_seq, tape.end_seq):
                tuples = segment.tuples[max(0, first_id - segment.first_id) :]
                begin = max(first_id, segment.first_id)
                self._send(reader, self._tuples(stream, begin, tuples, segment.promises))
            self._serving[reader, stream] = (first_id, tape.end_seq)

    def _tuples(self, stream: str, first_id: int, tuples: tuple[Tuple, ...], promises: Punctuations) -> say.Tuples:
        incarnation = self._disk.tapes[stream].readers.incarnation
        return say.Tuples(stream=stream, incarnation=incarnation, first_id=first_id, tuples=tuples, promises=promises)

    def _trim(self) -> None:
        disk = self._memory
        keep = frozenset(self._stage_readers()) | self.role.clients
        for stream, tape in disk.tapes.items():
            trimmed, actions = tape.handle(logs.TrimDue(full=tape.held >= self.role.limit, keep=keep))
            for action in actions:
                if isinstance(action, logs.CutOff):
                    self._tell(f"cuts {action.reader} off from {stream}")
                    self._observer.cut_off()
                    self._serving.pop((action.reader, stream), None)
                    self._send(action.reader, say.End(stream=stream))
                elif isinstance(action, logs.TrimThrough):
                    self._observer.trimmed(self.name, stream, trimmed, action.last_id)
            disk = self._with_tape(disk, trimmed)
        if disk is not self._memory:
            self._transact(disk, lambda: None)
        for stage in self.role.stages:
            self._work(stage)  # which may have waited for room

    def _stage_readers(self) -> list[str]:
        return [f"stage:{stage.name}" for stage in self.role.stages]

    # --- entering --------------------------------------------------------------------------------------------------

    def _registered(self, producer: str, origin: str) -> None:
        self._producers[origin] = producer
        leading = self._leading[origin]
        if leading is not None and leading.elected:
            self._welcome(origin)
        else:
            self._about_lane(origin, lanes.LeadWanted())

    def _welcome(self, origin: str) -> None:
        producer = self._producers.get(origin)
        if producer is not None:
            copy = self._disk.lanes[origin]
            self._send(producer, say.Accepted(origin=origin, through=copy.released))
            self._send(producer, say.Registered(origin=origin, following=copy.held + 1))

    def _pushed(self, producer: str, push: say.Push) -> None:
        leading, copy = self._leading[push.origin], self._memory.lanes[push.origin]
        leads = leading is not None and leading.elected and self._producers.get(push.origin) == producer
        if not leads or push.place > copy.held + 1:
            self._send(producer, say.Refused(origin=push.origin))
        elif push.place == copy.held + 1 and not self._is_full(self.role.lanes[push.origin]):
            self._about_lane(push.origin, lanes.Entered(contents=(push.entry,)))
        elif push.place <= copy.released:
            self._send(producer, say.Accepted(origin=push.origin, through=copy.released))

    def _about_lane(self, origin: str, event: lanes.Event[say.Pushed]) -> None:
        """One transaction: the copy of the lane, and the log with what is released of it."""
        before = self._memory.lanes[origin]
        after, self._leading[origin], actions = self._shared[origin].handle(before, self._leading[origin], event)
        disk = replace(self._memory, lanes={**self._memory.lanes, origin: after})
        source = self.role.lanes[origin]
        for entry in after.between(before.released, after.released):
            pushed = entry.content
            raised = {origin: pushed.promise_us}
            disk = self._with_tape(disk, disk.tapes[source].append(pushed.tuples, raised))

        def carry_out() -> None:
            for action in actions:
                match action:
                    case lanes.Tell():
                        self._send(action.peer, say.BetweenEntryPoints(origin=origin, message=action.message))
                    case lanes.Lead():
                        self._tell(f"leads {origin} in term {action.term}")
                        self._welcome(origin)
                    case lanes.StepDown():
                        producer = self._producers.pop(origin, None)
                        if producer is not None:
                            self._send(producer, say.Refused(origin=origin))
                    case lanes.Release():
                        producer = self._producers.get(origin)
                        if producer is not None:
                            self._send(producer, say.Accepted(origin=origin, through=action.through))

        if after is not before or actions:
            self._transact(disk, carry_out)

    def _look_after_lanes(self) -> None:
        """A leader reminds its peers; who holds something of a leader that is silent asks to lead in its place."""
        for origin, leading in self._leading.items():
            copy = self._memory.lanes[origin]
            silent_us = self._world.now_us - self._heard_us.get(origin, 0)
            if leading is not None:
                for peer in self.role.peers:
                    self._about_lane(origin, lanes.PeerReachable(peer=peer))
            elif copy.held > copy.released and silent_us > SILENT_US + self._world.random.randrange(SILENT_US):
                self._heard_us[origin] = self._world.now_us
                self._about_lane(origin, lanes.LeadWanted())

    # --- stages ----------------------------------------------------------------------------------------------------

    def _wake_stages(self, stream: str) -> None:
        for stage in self.role.stages:
            if stream in stage.inputs:
                self._work(stage)

    def _work(self, stage: Stage) -> None:
        """The next step of a stage, unless one is under way: plan, run and log, commit."""
        if self._busy[stage.name] or self._rebuilding is not None:
            return
        checkpoint = self._memory.checkpoints[stage.name]
        if checkpoint.planned is None:
            plan = self._plan(stage, checkpoint)
            if plan is None:
                return
            checkpoint = replace(checkpoint, planned=plan)
            self._step(stage, self._with_checkpoint(stage, checkpoint), lambda: self._run(stage))
        else:
            self._step(stage, self._memory, lambda: self._run(stage))

    def _is_full(self, stream: str) -> bool:
        """Whether a log takes no more: its last reader that counts is far behind, and pushes back."""
        return self._memory.tapes[stream].held >= FULL * self.role.limit

    def _plan(self, stage: Stage, checkpoint: Checkpoint) -> Plan | None:
        if any(self._is_full(target.stream) for target in stage.targets):
            return None
        ranges, tuples, promises = {}, {}, {}
        news = False
        for stream in stage.inputs:
            tape = self._memory.tapes[stream]
            start = end = checkpoint.offsets.get(stream, 0)
            taken: list[Tuple] = []
            said = self._promises_read(checkpoint, stream)
            for segment in tape.between(start, tape.end_seq):
                if taken and len(taken) + len(segment.tuples) > BATCH_TUPLES:
                    break
                taken += segment.tuples
                end, said = segment.seq, segment.promises
            else:  # a promise without tuples may be trimmed before it is read; it still holds
                end, said = tape.end_seq, tape.promises
            news = news or end > start
            ranges[stream], tuples[stream], promises[stream] = (start, end), tuple(taken), said
        if not news and not self._engines[stage.name].has_unused_watermark:
            return None
        return Plan(ranges=ranges, tuples=tuples, promises=promises)

    def _promises_read(self, checkpoint: Checkpoint, stream: str) -> Punctuations:
        return checkpoint.done[-1].promises[stream] if checkpoint.done else {}

    def _run(self, stage: Stage) -> None:
        checkpoint = self._memory.checkpoints[stage.name]
        assert checkpoint.planned is not None
        result = self._engines[stage.name].run(checkpoint.planned)
        disk = self._memory
        if decide(stage.name, checkpoint.logged, checkpoint.batch) is Decision.APPEND:
            for target in stage.targets:
                made = disk.tapes[target.stream].append(result.emitted[target.stream], result.punctuations)
                disk = self._with_tape(disk, made)
            logged = replace(checkpoint, logged=checkpoint.batch)
            disk = replace(disk, checkpoints={**disk.checkpoints, stage.name: logged})
        self._step(stage, disk, lambda: self._commit(stage))
        for target in stage.targets:
            self._wake_stages(target.stream)

    def _commit(self, stage: Stage) -> None:
        checkpoint = self._memory.checkpoints[stage.name].committed()
        disk = self._with_checkpoint(stage, checkpoint)
        for stream in stage.inputs:
            tape = disk.tapes[stream]
            read = [segment.last_id for segment in tape.segments if segment.seq <= checkpoint.offsets[stream]]
            position = Position(tape.readers.incarnation, max(read, default=tape.readers.trimmed_id))
            name = f"stage:{stage.name}"
            tape, _ = tape.handle(logs.ReaderSubscribed(reader=name, life=LOCAL, position=position))
            disk = self._with_tape(disk, tape)
        self._step(stage, disk, lambda: self._work(stage))

    def _with_checkpoint(self, stage: Stage, checkpoint: Checkpoint) -> Disk:
        return replace(self._memory, checkpoints={**self._memory.checkpoints, stage.name: checkpoint})

    def _step(self, stage: Stage, disk: Disk, then: Apply) -> None:
        """Each step of a batch is a transaction; the next one begins some time after it."""
        self._busy[stage.name] = True
        run, life = self._runs, self._memory.life

        def go_on() -> None:
            if self.up and self._runs == run and self._memory.life == life:
                self._busy[stage.name] = False
                then()

        pause_us = self._world.random.randrange(1, 40) * MS * self._slow
        self._transact(disk, lambda: self._world.after(pause_us, lambda: self._when_awake(go_on)))

    # --- rebuild ---------------------------------------------------------------------------------------------------

    def _begin_rebuild(self, reason: str) -> None:
        if not self.role.stages or self._rebuilding is not None:
            return
        self._tell(f"is rebuilt: {reason}")
        self._births += 1
        life = f"{self.name}.{self._births if self._protocol.reserves else 1}"
        state, actions = rebuild.begin(life, self.role.peers)
        self._rebuilding = state
        self._reading.clear()
        for reader, stream in self._serving:
            self._send(reader, say.End(stream=stream))
        self._serving.clear()
        self._do_rebuild(actions)

    def _rebuild(self, event: rebuild.Event, snapshot: say.Snapshot | None = None) -> None:
        if self._rebuilding is None:
            return
        self._rebuilding, actions = rebuild.handle(self._rebuilding, event)
        self._do_rebuild(actions, snapshot)

    def _do_rebuild(self, actions: list[rebuild.Action], snapshot: say.Snapshot | None = None) -> None:
        for action in actions:
            match action:
                case rebuild.AskPeer():
                    self._send(action.peer, say.AskPlaces())
                case rebuild.ReservePlace():
                    stream, copy = action.input
                    if self._protocol.reserves:
                        self._send(
                            copy,
                            say.Reserve(
                                stream=stream,
                                life=action.life,
                                like=action.like,
                                like_life=action.like_life,
                                position=action.position,
                            ),
                        )
                case rebuild.AskSnapshot():
                    self._send(action.peer, say.AskSnapshot())
                case rebuild.InstallSnapshot():
                    assert snapshot is not None
                    self._install(snapshot, action.life)
                    return
        if actions:
            self._rebuild_step += 1
            step = self._rebuild_step
            self._later(PATIENCE_US, lambda: self._be_patient(step))

    def _be_patient(self, step: int) -> None:
        if self._rebuild_step == step:
            self._rebuild(rebuild.NobodyAnswered())

    def _install(self, snapshot: say.Snapshot, life: str) -> None:
        theirs: Disk = snapshot.disk
        tapes = {name: tape.begun_anew(f"{self.name}.{self._births}") for name, tape in theirs.tapes.items()}
        disk = replace(theirs, life=life, tapes=tapes)

        def installed() -> None:
            self._tell(f"has the state of {snapshot.life}, as {life}")
            self._observer.rebuilt(self.name, snapshot.passed)
            self._runs += 1  # whatever was under way belongs to what was lost
            self.start()

        self._transact(disk, installed)

    def _tell_places(self, reader: str) -> None:
        if self._rebuilding is not None:
            return
        places = {
            (stream, copy): (known.position if (known := self._disk.inlets[stream].copies.get(copy)) else None)
            for stream, copies in self.role.upstream.items()
            for copy in copies
        }
        self._send(reader, say.TellPlaces(life=self._disk.life, places=places))

    def _give_snapshot(self, reader: str) -> None:
        if self._rebuilding is None:
            passed = self._observer.passed_by(self.name)
            self._send(reader, say.Snapshot(life=self._disk.life, disk=self._disk, passed=passed))

    # --- messages --------------------------------------------------------------------------------------------------

    def _send(self, to: str, message: Any) -> None:
        self._network.send(self.name, to, message)

    def _receive(self, sender: str, message: Any) -> None:
        if self.up:
            run = self._runs
            self._when_awake(lambda: self._handle(sender, message) if self.up and self._runs == run else None)

    def _handle(self, sender: str, message: Any) -> None:
        if self._rebuilding is not None and isinstance(
            message, say.Answer | say.Tuples | say.End | say.Subscribe | say.Acknowledgement
        ):
            return
        match message:
            case say.Register():
                self._registered(sender, message.origin)
            case say.Push():
                self._pushed(sender, message)
            case say.BetweenEntryPoints():
                if isinstance(message.message, lanes.StoreAsked):
                    self._heard_us[message.origin] = self._world.now_us
                self._about_lane(message.origin, message.message)
            case say.Subscribe():
                self._subscribed(sender, message)
            case say.Acknowledgement():
                self._acknowledged(sender, message)
            case say.Answer():
                self._answered(sender, message)
            case say.Tuples():
                self._arrived(sender, message)
            case say.End():
                self._reading[message.stream, sender] = False
            case say.Reserve():
                self._reserve(sender, message)
            case say.Reserved():
                self._rebuild(rebuild.PlaceReserved(life=message.life, input=(message.stream, sender)))
            case say.AskPlaces():
                self._tell_places(sender)
            case say.TellPlaces():
                self._rebuild(rebuild.PeerTold(peer=sender, life=message.life, places=message.places))
            case say.AskSnapshot():
                self._give_snapshot(sender)
            case say.Snapshot():
                self._rebuild(rebuild.SnapshotArrived(peer=sender, life=message.life), message)

    def _lost(self, peer: str) -> None:
        if not self.up:
            return
        for stream, copy in list(self._reading):
            if copy == peer:
                self._reading[stream, copy] = False
        for reader, stream in list(self._serving):
            if reader == peer:
                del self._serving[reader, stream]

    # --- time ------------------------------------------------------------------------------------------------------

    def _later(self, delay_us: int, apply: Apply) -> None:
        run = self._runs
        self._world.after(
            delay_us, lambda: self._when_awake(lambda: apply() if self.up and self._runs == run else None)
        )

    def _every(self, interval_us: int, apply: Apply) -> None:
        def again() -> None:
            apply()
            if self.up:
                self._every(interval_us, apply)

        self._later(interval_us, again)

    def _when_awake(self, apply: Apply) -> None:
        if self._paused is None:
            apply()
        else:
            self._paused.append(apply)

    def _tell(self, what: str) -> None:
        self._world.tell(self.name, what)

    # --- faults ----------------------------------------------------------------------------------------------------

    def crash(self, *, lose_disk: bool = False) -> None:
        if not self.up:
            return
        self._tell("crashes and loses its disk" if lose_disk else "crashes")
        self.up = False
        self._runs += 1
        self._paused = None
        self._network.leave(self.name)
        if lose_disk:
            self._disk = self._empty()
            self._observer.lost(self.name)

    def pause(self) -> None:
        if self.up and self._paused is None:
            self._tell("pauses")
            self._paused = []

    def resume(self) -> None:
        waiting, self._paused = self._paused, None
        if waiting is not None:
            self._tell("goes on")
            for apply in waiting:
                apply()

    def slow_down(self, factor: int) -> None:
        self._slow = factor

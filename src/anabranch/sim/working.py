"""The stages of a simulated node: each plans a batch, runs it, logs it and commits it, with time between the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from anabranch.core import readers as logs
from anabranch.core.ledger import Decision, decide
from anabranch.core.passing import raised
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations, smallest
from anabranch.query.graph import Stage
from anabranch.reference.tuples import Tuple
from anabranch.sim.engine import Checkpoint, Engine, Plan
from anabranch.sim.process import Apply, Process
from anabranch.sim.role import Disk, Protocol, Role, stage_reader

LOCAL: Final = "local"
"""The life of a stage as the reader of its node's own logs: it never loses its place alone."""
BATCH_TUPLES: Final = 12


class Working:
    def __init__(self, process: Process, role: Role, protocol: Protocol) -> None:
        self._process = process
        self._role = role
        self._passing = {stage.name: protocol.passing(role.diagram, stage) for stage in role.stages}
        self._reference = protocol.reference
        self._engines: dict[str, Engine] = {}
        self._busy: dict[str, bool] = {}
        self._goes_on = True

    def end(self) -> None:
        """No step follows the one that is under way: a peer's state is about to replace all that they rest on."""
        self._goes_on = False

    def begin(self) -> None:
        """From the checkpoints."""
        self._goes_on = True
        disk = self._process.disk
        for stage in self._role.stages:
            checkpoint = disk.checkpoints[stage.name].rolled_back()
            disk = disk.with_checkpoint(stage.name, checkpoint)
            self._engines[stage.name] = Engine(self._reference(self._role.diagram, stage), checkpoint)
        self._process.disk = self._process.memory = disk
        self._busy = dict.fromkeys(self._engines, False)

    def work(self) -> None:
        for stage in self._role.stages:
            self._work(stage)

    def wake(self, stream: str) -> None:
        for stage in self._role.stages:
            if stream in stage.inputs:
                self._work(stage)

    def _work(self, stage: Stage) -> None:
        """The next step of a stage, unless one is under way: plan, run and log, commit."""
        if self._busy[stage.name]:
            return
        checkpoint = self._process.memory.checkpoints[stage.name]
        if checkpoint.planned is None:
            plan = self._plan(stage, checkpoint)
            if plan is None:
                return
            passed = self._passed_on(stage, plan)
            if passed is not None:
                self._step(stage, passed, lambda: self._work(stage))
                self._wake_readers(stage)
                return
            checkpoint = replace(checkpoint, planned=plan)
            self._step(stage, self._process.memory.with_checkpoint(stage.name, checkpoint), lambda: self._run(stage))
        else:
            self._step(stage, self._process.memory, lambda: self._run(stage))

    def _plan(self, stage: Stage, checkpoint: Checkpoint) -> Plan | None:
        if any(self._role.is_full(self._process.memory.tapes[target.stream]) for target in stage.targets):
            return None
        ranges, tuples, promises = {}, {}, {}
        news = False
        for stream in stage.inputs:
            tape = self._process.memory.tapes[stream]
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

    def _passed_on(self, stage: Stage, plan: Plan) -> Disk | None:
        """The disk when boundaries are passed on, if they can be without a batch and that promises anything new. A
        batch reads them later."""
        engine, before = self._engines[stage.name], self._process.memory
        rows = 0 if self._keeps(stage, plan) else sum(len(tuples) for tuples in plan.tuples.values())
        before_us, now_us = engine.watermark_us, engine.watermark_after(plan.promises)
        promised = self._passing[stage.name].promised(plan.promises, rows=rows, before_us=before_us, now_us=now_us)
        if promised is None:
            return None
        disk = before
        for target in stage.targets:
            tape = disk.tapes[target.stream]
            disk = disk.with_tape(tape.append((), raised(tape.promises, promised)))
        return None if disk is before else disk

    def _keeps(self, stage: Stage, plan: Plan) -> bool:
        checkpoint = self._process.memory.checkpoints[stage.name]
        said_us = {
            stream: smallest(self._promises_read(checkpoint, stream), self._role.origins[stream])
            for stream in stage.inputs
        }

        def top_us(stream: str) -> int:
            return max((each.stime for read in (*checkpoint.done, plan) for each in read.tuples[stream]), default=0)

        rows = {stream: len(tuples) for stream, tuples in plan.tuples.items()}
        return self._passing[stage.name].keeps(rows, said_us, top_us)

    def _promises_read(self, checkpoint: Checkpoint, stream: str) -> Punctuations:
        return checkpoint.done[-1].promises[stream] if checkpoint.done else {}

    def _run(self, stage: Stage) -> None:
        checkpoint = self._process.memory.checkpoints[stage.name]
        assert checkpoint.planned is not None
        result = self._engines[stage.name].run(checkpoint.planned)
        disk = self._process.memory
        if decide(stage.name, checkpoint.logged, checkpoint.batch) is Decision.APPEND:
            for target in stage.targets:
                tape = disk.tapes[target.stream]
                made = tape.append(result.emitted[target.stream], raised(tape.promises, result.punctuations))
                disk = disk.with_tape(made)
            logged = replace(checkpoint, logged=checkpoint.batch)
            disk = disk.with_checkpoint(stage.name, logged)
        self._step(stage, disk, lambda: self._commit(stage))
        self._wake_readers(stage)

    def _wake_readers(self, stage: Stage) -> None:
        for target in stage.targets:
            self.wake(target.stream)

    def _commit(self, stage: Stage) -> None:
        checkpoint = self._process.memory.checkpoints[stage.name].committed()
        disk = self._process.memory.with_checkpoint(stage.name, checkpoint)
        for stream in stage.inputs:
            tape = disk.tapes[stream]
            position = Position(tape.readers.incarnation, tape.last_id_at(checkpoint.offsets[stream]))
            tape, _ = tape.handle(logs.ReaderSubscribed(reader=stage_reader(stage), life=LOCAL, position=position))
            disk = disk.with_tape(tape)
        self._step(stage, disk, lambda: self._work(stage))

    def _step(self, stage: Stage, disk: Disk, then: Apply) -> None:
        """Each step of a batch is a transaction; the next one begins some time after it."""
        self._busy[stage.name] = True

        def go_on() -> None:
            self._busy[stage.name] = False
            if self._goes_on:
                then()

        pause_us = self._process.some_work_us()
        self._process.transact(disk, lambda: self._process.later(pause_us, go_on))

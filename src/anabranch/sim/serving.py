"""The serving side of a simulated node: its logs, sent to whoever subscribes, and trimmed by what readers have."""

from __future__ import annotations

from anabranch.core import readers as logs
from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim import messages as say
from anabranch.sim.process import Process
from anabranch.sim.role import Protocol, Role
from anabranch.sim.tape import Tape


class Serving:
    def __init__(self, process: Process, role: Role, protocol: Protocol) -> None:
        self._process = process
        self._role = role
        self._protocol = protocol
        self._kept = frozenset(role.stage_readers) | role.clients
        """Who is never cut off."""
        self._fragment_of = role.fragment_of if protocol.spares_fragments else {}
        self._untrimmed: dict[str, Tape] = {}
        """Per stream, what was looked at and had nothing to trim: it has nothing while it is the same."""
        self._serving: dict[tuple[str, str], tuple[int, int]] = {}
        """Per reader and stream, the first tuple that it wants, and the last segment that it was sent."""

    def forget(self) -> None:
        self._serving.clear()

    def end(self, stream: str | None = None) -> None:
        """Tells all readers that no more comes, of this stream or of any."""
        for reader, each in list(self._serving):
            if stream in (None, each):
                self._process.send(reader, say.End(stream=each))
                del self._serving[reader, each]

    def lost(self, reader: str) -> None:
        for each, stream in list(self._serving):
            if each == reader:
                del self._serving[each, stream]

    def subscribed(self, reader: str, asked: say.Subscribe) -> None:
        tape = self._process.memory.tapes[asked.stream]
        event = logs.ReaderSubscribed(
            reader=reader, life=asked.life, position=asked.position, punctuations=asked.punctuations
        )
        tape, (answer,) = tape.handle(event)
        assert isinstance(answer, logs.AnswerSubscription)

        def respond() -> None:
            self._process.send(
                reader,
                say.Answer(
                    stream=asked.stream,
                    incarnation=answer.incarnation,
                    first_id=answer.first_id,
                    floors=answer.floors,
                    earlier_life=answer.earlier_life,
                ),
            )
            held = self._process.disk.tapes[asked.stream]
            promises = held.promises_at(answer.first_id - 1)
            if not self._protocol.promises_in_order:
                promises = held.promises
            self._process.send(reader, self._tuples(asked.stream, answer.first_id, (), promises))
            self._serving[reader, asked.stream] = (answer.first_id, held.seq_at(answer.first_id - 1))

        self._process.transact(self._process.memory.with_tape(tape), respond)

    def acknowledged(self, reader: str, said: say.Acknowledgement) -> None:
        tape, _ = self._process.memory.tapes[said.stream].handle(
            logs.ReaderAcknowledged(
                reader=reader, life=said.life, position=said.position, punctuations=said.punctuations
            )
        )
        self._process.memory = self._process.memory.with_tape(tape)  # durable with the next transaction

    def reserved(self, reader: str, asked: say.Reserve) -> None:
        event = logs.PositionReserved(
            reader=reader, life=asked.life, like=asked.like, like_life=asked.like_life, position=asked.position
        )
        tape, _ = self._process.memory.tapes[asked.stream].handle(event)
        answer = say.Reserved(stream=asked.stream, life=asked.life)
        self._process.transact(self._process.memory.with_tape(tape), lambda: self._process.send(reader, answer))

    def feed(self) -> None:
        """Sends what is durable and was not sent."""
        tapes = self._process.disk.tapes
        for (reader, stream), (first_id, sent_seq) in self._serving.items():
            tape = tapes[stream]
            if tape.end_seq == sent_seq:
                continue
            for segment in tape.between(sent_seq, tape.end_seq):
                tuples = segment.tuples[max(0, first_id - segment.first_id) :]
                begin = max(first_id, segment.first_id)
                self._process.send(reader, self._tuples(stream, begin, tuples, segment.promises))
            self._serving[reader, stream] = (first_id, tape.end_seq)

    def _tuples(self, stream: str, first_id: int, tuples: tuple[Tuple, ...], promises: Punctuations) -> say.Tuples:
        incarnation = self._process.disk.tapes[stream].readers.incarnation
        return say.Tuples(stream=stream, incarnation=incarnation, first_id=first_id, tuples=tuples, promises=promises)

    def trim(self) -> None:
        disk = self._process.memory
        for stream, tape in disk.tapes.items():
            if self._untrimmed.get(stream) is tape:
                continue
            due = logs.TrimDue(full=tape.held >= self._role.limit, keep=self._kept, fragment_of=self._fragment_of)
            trimmed, actions = tape.handle(due)
            for action in actions:
                if isinstance(action, logs.CutOff):
                    self._process.tell(f"cuts {action.reader} off from {stream}")
                    self._process.observer.cut_off()
                    self._serving.pop((action.reader, stream), None)
                    self._process.send(action.reader, say.End(stream=stream))
                elif isinstance(action, logs.TrimThrough):
                    self._process.observer.trimmed(self._process.name, stream, trimmed, action.last_id)
            disk = disk.with_tape(trimmed)
            if not actions:
                self._untrimmed[stream] = trimmed
        self._process.transact(disk, lambda: None)  # with what was acknowledged since the last one

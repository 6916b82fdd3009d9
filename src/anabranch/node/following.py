"""Follows one copy of a stream on another node, into the inlet of this one, for as long as it takes.

A thread of its own for each copy: a slow or silent one holds up nobody. Whatever ends the connection, the copy is asked
again, from where the inlet is. What the inlet holds is acknowledged after its transaction, beside the reading
(``acknowledger``): a copy far away would otherwise send one piece for each round trip.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from anabranch.core.backoff import RECONNECT
from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.core.inlet import Acknowledge, CopyAnswered, RebuildFromPeer, SubscribeAgain
from anabranch.errors import AnabranchError, ConfigError, InvariantBroken, NodeUnreachable
from anabranch.model.punctuation import Punctuations
from anabranch.node.acknowledger import Acknowledger
from anabranch.node.inlet import JournalInlet
from anabranch.node.turns import Hold, at_once
from anabranch.runtime.status import CopyStatus
from anabranch.transport.client import Client, CopyStream
from anabranch.transport.ports import CopyAcknowledgement, CopyRequest

_log: Final = logging.getLogger(__name__)


class CopyFollower:
    """``copy`` is the node that has it, ``reader`` this one. ``rebuild`` is told why no copy can serve this node.
    ``hold`` may keep what came waiting before the inlet takes it. ``slowest`` says how far the slowest origin of this
    part is; the copy is told with each acknowledgement."""

    def __init__(
        self,
        inlet: JournalInlet,
        client: Client,
        acknowledger: Acknowledger,
        *,
        copy: str,
        reader: str,
        life: str,
        rebuild: Callable[[str], None],
        hold: Hold = at_once,
        slowest: Callable[[], Slowest] = lambda: UNKNOWN,
    ) -> None:
        self.copy: Final = copy
        self._inlet = inlet
        self._client = client
        self._acknowledger = acknowledger
        self._reader = reader
        self._life = life
        self._rebuild = rebuild
        self._hold = hold
        self._slowest = slowest
        self._stopping = threading.Event()
        self._reading: CopyStream | None = None
        self._failure: AnabranchError | None = None
        self._holds = False
        self._told: Punctuations = {}
        self._thread = threading.Thread(target=self._run, name=f"copy {inlet.stream} of {copy}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.close()
        self.join()

    def close(self) -> None:
        """Ends the reading; ``join`` waits until it has ended."""
        self._stopping.set()
        reading = self._reading
        if reading is not None:
            reading.close()

    def join(self) -> None:
        self._thread.join()

    def acknowledgement(self) -> CopyAcknowledgement | None:
        """What the inlet holds of the copy durably, and promises. What it has not stored yet is told next time."""
        stored = self._inlet.stored()
        if not self._inlet.is_stored:
            self._acknowledger.tell(self)
        known = stored.copies.get(self.copy)
        if known is None or not self._holds:
            return None
        slowest = self._slowest()
        return CopyAcknowledgement(
            stream=self._inlet.stream,
            reader=self._reader,
            life=self._life,
            position=known.position,
            punctuations=stored.punctuations,
            hold_us=self._inlet.hold_us(),
            slowest_us=slowest.time_us,
            slowest_origin=slowest.origin,
        )

    def tell_again(self) -> None:
        """What the copy is told with an acknowledgement has changed, and is told even if nothing came of it."""
        self._acknowledger.tell(self)

    def acknowledged(self, said: CopyAcknowledgement) -> None:
        self._told = said.punctuations

    def statistics(self) -> CopyStatus:
        known = self._inlet.state.copies.get(self.copy)
        return CopyStatus(
            state="read" if self.is_live else "away",
            position=None if known is None else str(known.position),
            error=None if self._failure is None else str(self._failure),
            first=self._inlet.first_from(self.copy),
        )

    @property
    def is_live(self) -> bool:
        """Whether the copy is being read now."""
        return self._reading is not None

    @property
    def failure(self) -> AnabranchError | None:
        """Why the copy cannot be read, if it was tried and failed since it was read last."""
        return self._failure

    def _run(self) -> None:
        backoff = RECONNECT
        while not self._stopping.is_set():
            try:
                if self._follow():
                    backoff = RECONNECT
                self._failure = None
            except AnabranchError as error:
                if not isinstance(error, NodeUnreachable) and self._failure is None:
                    _log.warning("Copy %s of %s cannot be read: %s", self.copy, self._inlet.stream, error)
                self._failure = error
            except Exception as error:  # a bug must not end the reading in silence
                _log.exception("Copy %s of %s cannot be read", self.copy, self._inlet.stream)
                self._failure = InvariantBroken(f"It cannot be read: {error!r}.", remedy="Report this.")
            finally:
                self._reading = None
            backoff = backoff.failed()
            self._stopping.wait(backoff.wait_s)

    def _follow(self) -> bool:
        """Until the copy ends, has to be asked again, or this node has to be rebuilt. Returns whether anything came."""
        came = False
        state = self._inlet.settled()
        known = state.copies.get(self.copy)
        request = CopyRequest(
            stream=self._inlet.stream,
            reader=self._reader,
            life=self._life,
            position=known.position if known else None,
            punctuations=state.punctuations,
        )
        with self._client.read_copy(request) as reading:
            self._reading = reading
            answer = reading.answer
            self._check_same_stream(answer.origins)
            event = CopyAnswered(
                copy=self.copy,
                incarnation=answer.incarnation,
                first_id=answer.first_id,
                floors=answer.floors,
                earlier_life=answer.earlier_life,
            )
            for action in self._inlet.answered(event):
                if isinstance(action, RebuildFromPeer):
                    self._rebuild(action.reason)
                    return came
            promises: Punctuations | None = None
            for piece in reading:
                if self._stopping.is_set():
                    return came
                came = True
                self._failure = None
                if not piece.rows.num_rows and piece.promises == promises:  # a sign of life
                    if self._inlet.state.punctuations != self._told:  # raised by another copy, maybe to a floor of this
                        self._acknowledger.tell(self)
                    continue
                promises = piece.promises
                self._hold(piece, self._stopping.is_set)
                if self._stopping.is_set():
                    return came
                for action in self._inlet.arrived(
                    self.copy, answer.incarnation, piece.first_id, piece.rows, piece.promises
                ):
                    if isinstance(action, SubscribeAgain):
                        return came
                    if isinstance(action, Acknowledge):
                        self._holds = True
                        self._acknowledger.tell(self)
        return came

    def _check_same_stream(self, origins: tuple[str, ...]) -> None:
        if origins != self._inlet.origins:
            raise ConfigError(
                f"Node {self.copy} runs a different query: its stream {self._inlet.stream!r} has origins "
                f"{list(origins)}, not {list(self._inlet.origins)}.",
                remedy="Deploy the same query to all nodes.",
            )

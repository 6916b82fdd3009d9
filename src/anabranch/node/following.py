"""Follows one copy of a stream on another node, into the inlet of this one, for as long as it takes.

Threads of its own for each copy: a slow or silent one holds up nobody. Whatever ends the connection, the copy is asked
again, from where the inlet is. What the inlet holds is acknowledged after its transaction, beside the reading: a copy
far away would otherwise send one piece for each round trip. Of several acknowledgements only the latest is sent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from anabranch.core.inlet import Acknowledge, CopyAnswered, RebuildFromPeer, SubscribeAgain
from anabranch.errors import AnabranchError, ConfigError, InvariantBroken, NodeUnreachable
from anabranch.model.punctuation import Punctuations
from anabranch.node.inlet import JournalInlet
from anabranch.node.turns import Hold, at_once
from anabranch.transport.client import Client, CopyStream
from anabranch.transport.ports import CopyAcknowledgement, CopyRequest
from anabranch.transport.retry import BACKOFF_S

_log: Final = logging.getLogger(__name__)

ACKNOWLEDGE_S: Final = 0.1
"""How often a copy is told what is held: it need not know of every piece."""


class CopyFollower:
    """``copy`` is the node that has it, ``reader`` this one. ``rebuild`` is told why no copy can serve this node.
    ``hold`` may keep what came waiting before the inlet takes it."""

    def __init__(
        self,
        inlet: JournalInlet,
        client: Client,
        *,
        copy: str,
        reader: str,
        life: str,
        rebuild: Callable[[str], None],
        hold: Hold = at_once,
    ) -> None:
        self.copy: Final = copy
        self._inlet = inlet
        self._client = client
        self._reader = reader
        self._life = life
        self._rebuild = rebuild
        self._hold = hold
        self._stopping = threading.Event()
        self._reading: CopyStream | None = None
        self._failure: AnabranchError | None = None
        self._held: Acknowledge | None = None
        self._told: Punctuations = {}
        self._news = threading.Event()
        name = f"copy {inlet.stream} of {copy}"
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True),
            threading.Thread(target=self._acknowledge, name=f"{name}, acknowledging", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.close()
        self.join()

    def close(self) -> None:
        """Ends the reading; ``join`` waits until it has ended."""
        self._stopping.set()
        self._news.set()
        reading = self._reading
        if reading is not None:
            reading.close()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def statistics(self) -> dict[str, Any]:
        known = self._inlet.state.copies.get(self.copy)
        return {
            "state": "read" if self.is_live else "away",
            "position": None if known is None else str(known.position),
            "error": None if self._failure is None else str(self._failure),
        }

    @property
    def is_live(self) -> bool:
        """Whether the copy is being read now."""
        return self._reading is not None

    @property
    def failure(self) -> AnabranchError | None:
        """Why the copy cannot be read, if it was tried and failed since it was read last."""
        return self._failure

    def _run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                if self._follow():
                    tries = 0
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
            self._stopping.wait(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
            tries += 1

    def _follow(self) -> bool:
        """Until the copy ends, has to be asked again, or this node has to be rebuilt. Returns whether anything came."""
        came = False
        state = self._inlet.state
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
                        self._news.set()
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
                        self._held = action
                        self._news.set()
        return came

    def _acknowledge(self) -> None:
        while not self._stopping.is_set():
            self._news.wait()
            self._news.clear()
            held = self._held
            if held is None or self._stopping.is_set():
                continue
            punctuations = self._inlet.state.punctuations
            acknowledgement = CopyAcknowledgement(
                stream=self._inlet.stream,
                reader=self._reader,
                life=self._life,
                position=held.position,
                punctuations=punctuations,
            )
            # What cannot be said now is said with more after the next piece, and when the copy is asked again.
            with suppress(AnabranchError):
                self._client.acknowledge_copy(acknowledgement)
                self._told = punctuations
            self._stopping.wait(ACKNOWLEDGE_S)

    def _check_same_stream(self, origins: tuple[str, ...]) -> None:
        if origins != self._inlet.origins:
            raise ConfigError(
                f"Node {self.copy} has another query: its stream {self._inlet.stream!r} has origins {list(origins)}, "
                f"and {list(self._inlet.origins)} are expected.",
                remedy="Deploy the same query to all nodes.",
            )

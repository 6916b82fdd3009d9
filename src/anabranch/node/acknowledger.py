"""Tells one other node how much of its copies this one holds durably: all streams in one message, and not often.

Whoever has a copy only needs it to know what it may trim, which it does now and then. So it is told at most once in
``ACKNOWLEDGE_S``, and of each stream only the latest. What cannot be told now is told with more after the next piece,
and when the copy is asked again. One thread for each node that is told: one that hangs holds up no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from anabranch.errors import AnabranchError
from anabranch.limits import ACKNOWLEDGE_S
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyAcknowledgement

_log: Final = logging.getLogger(__name__)


class Holder(Protocol):
    """Whoever holds some of a copy."""

    def acknowledgement(self) -> CopyAcknowledgement | None:
        """What is held now; None before anything is."""
        ...

    def acknowledged(self, said: CopyAcknowledgement) -> None:
        """The node has heard it."""
        ...


class Acknowledger:
    """``copy`` is the node that is told, by ``client``. Any thread may say that there is news."""

    def __init__(self, copy: str, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._due: Final[set[Holder]] = set()
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"acknowledging to {copy}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Nothing more is told; ``join`` waits for what is under way."""
        self._stopping.set()
        self._news.set()

    def join(self) -> None:
        self._thread.join()

    def tell(self, holder: Holder) -> None:
        """What it holds, or promises, has changed."""
        with self._lock:
            self._due.add(holder)
        self._news.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait()
            self._news.clear()
            with self._lock:
                holders = list(self._due)
                self._due.clear()
            told = self._told(holders)
            if told and not self._stopping.is_set():
                with suppress(AnabranchError):
                    self._client.acknowledge_copies([said for _, said in told])
                    for holder, said in told:
                        holder.acknowledged(said)
            self._stopping.wait(ACKNOWLEDGE_S)

    def _told(self, holders: Iterable[Holder]) -> list[tuple[Holder, CopyAcknowledgement]]:
        """What is held now. One who cannot say it is asked with the next piece again."""
        told: list[tuple[Holder, CopyAcknowledgement]] = []
        for holder in holders:
            try:
                said = holder.acknowledgement()
            except Exception:  # a full disk, or a bug: the others are told of all the same
                _log.exception("Cannot determine what to acknowledge to a copy")
                continue
            if said is not None:
                told.append((holder, said))
        return told

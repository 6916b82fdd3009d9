"""The other entry points of a node's sources: what is said to each of them, and what they say.

One thread for each peer writes letters, one at a time, so a peer that is slow or away holds up nobody who has a
majority without it. When a letter is written, and what it says, is up to ``runtime/ingest/peer_line.py``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from anabranch.core.roll_call import Roll
from anabranch.errors import AnabranchError, ConfigError, InvariantBroken, NodeUnreachable, NotLeading, StreamNotFound
from anabranch.node.dialer import Dialer
from anabranch.node.housekeeper import Housekeeper
from anabranch.node.shared_entry import SharedEntryPoint
from anabranch.query.assigned import AssignedQuery
from anabranch.runtime.ingest.peer_line import PeerLine
from anabranch.runtime.status import PeerStatus
from anabranch.transport.calls import Greeting
from anabranch.transport.client import Client
from anabranch.transport.letters import AboutLane

STOP_S: Final = 2.0
"""How long a stop waits for the letter under way."""

_log: Final = logging.getLogger(__name__)


class Peers:
    """The doors for other entry points, and the letters to them. ``entries`` are the sources that have peers."""

    def __init__(self, part: AssignedQuery, dialer: Dialer) -> None:
        self._part = part
        self._dialer = dialer
        self._entries: dict[str, SharedEntryPoint] = {}
        self._writers: dict[str, _LetterWriter] = {}

    def add(self, entry: SharedEntryPoint) -> None:
        self._entries[entry.source.name] = entry

    def start(self) -> None:
        """To be called when the server listens: whoever answers, is also asked."""
        for peer, address in self._addresses().items():
            entries = {name: entry for name, entry in self._entries.items() if peer in self._part.peers.get(name, {})}
            client = self._dialer.client(peer, address)
            self._writers[peer] = _LetterWriter(self._part.host, peer, client, entries)
        for writer in list(self._writers.values()):
            writer.start()

    def stop(self) -> None:
        for entry in self._entries.values():
            entry.close()
        for writer in self._writers.values():
            writer.close()
        for writer in self._writers.values():
            writer.join()

    def wake(self, peer: str, within_s: float) -> None:
        writer = self._writers.get(peer)
        if writer is not None:
            writer.wake(within_s)

    def failure(self) -> AnabranchError | None:
        """Why letters are written no more."""
        return next((writer.broken for writer in self._writers.values() if writer.broken), None)

    def statistics(self) -> dict[str, PeerStatus]:
        """Per peer, whether it answers."""
        return {peer: writer.statistics() for peer, writer in list(self._writers.items())}

    def _addresses(self) -> dict[str, str]:
        return {peer: address for name in self._entries for peer, address in self._part.peers[name].items()}

    # --- what other entry points say -------------------------------------------------------------------------------

    def hear(self, sender: str, letter: Sequence[AboutLane]) -> list[AboutLane]:
        self._is_there(sender)
        answers: list[AboutLane] = []
        for about in letter:
            entry = self._entry(about.source, sender)
            if about.lane not in entry.source.lanes or about.message.sender != sender:
                raise ConfigError(
                    f"Entry point {sender} sent a message about lane {about.lane!r} of {about.source!r}, which "
                    "does not fit this node's query.",
                    remedy=_REMEDY,
                )
            if not entry.has_begun:
                continue  # it is told again, and what is said of other sources need not wait
            heard = entry.heard(about.lane, about.message)
            answers += [AboutLane(source=about.source, lane=about.lane, message=answer) for answer in heard]
        return answers

    def greet(self, greeting: Greeting) -> Roll:
        self._is_there(greeting.name)
        entry = self._entry(greeting.source, greeting.name)
        if greeting.form != entry.form:
            raise ConfigError(
                f"Entry point {greeting.name} runs a different query: its source is {greeting.form}, but here it "
                f"is {entry.form}.",
                remedy=_REMEDY,
            )
        return entry.greeted(greeting.name, greeting.met)

    def _is_there(self, peer: str) -> None:
        writer = self._writers.get(peer)
        if writer is not None:
            writer.try_again()

    def _entry(self, source: str, sender: str) -> SharedEntryPoint:
        entry = self._entries.get(source)
        if entry is None or sender not in self._part.peers[source]:
            raise StreamNotFound(
                f"In this node's query, {sender} is not another entry point of {source!r}.", remedy=_REMEDY
            )
        return entry


_REMEDY: Final = "Deploy the same query to all nodes."


class _LetterWriter:
    """What is said to one peer, about the sources that it shares with this node."""

    def __init__(self, name: str, peer: str, client: Client, entries: Mapping[str, SharedEntryPoint]) -> None:
        self._name = name
        self._peer = peer
        self._client = client
        self._call = client.peer_call()
        self._entries = entries
        self._housekeeper = Housekeeper()
        self._letter = self._housekeeper.add(self._write_or_wait)
        self._line = PeerLine[bytes](peer, entries)
        self._failure: AnabranchError | None = None
        self.broken: AnabranchError | None = None
        self._thread = threading.Thread(target=self._run, name=f"letters to {peer}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._housekeeper.stop()
        self._call.close()

    def join(self) -> None:
        """A call to a peer that hangs is left to itself."""
        self._thread.join(STOP_S)

    def wake(self, within_s: float) -> None:
        """There are news. One that is away hears them when it is back."""
        if self._failure is None:
            self._letter.within(within_s)

    def try_again(self) -> None:
        """The peer has been heard: it need not be waited for any longer."""
        if self._failure is not None:
            self._letter.now()

    def statistics(self) -> PeerStatus:
        failure = self._failure
        return (
            PeerStatus(state="there", error=None) if failure is None else PeerStatus(state="away", error=str(failure))
        )

    def _run(self) -> None:
        try:
            self._housekeeper.run()
        except InvariantBroken as error:
            self.broken = error
        except Exception as error:  # who writes no letters looks alive and is not: tell it, and end
            self.broken = InvariantBroken(f"Letters to {self._peer} failed: {error!r}.", remedy="Please report this.")

    def _write_or_wait(self) -> float:
        """Returns the seconds until the next reminder, or until an absent peer is looked for again."""
        try:
            self._greet()
            letter = [AboutLane(*about) for about in self._line.write(time.monotonic())]
            answers = self._call.tell_lanes(self._name, letter) if letter else []
            said = [(answer.source, answer.lane, answer.message) for answer in answers]
            again_s = self._line.answered(said, time.monotonic())
        except InvariantBroken:
            raise
        except AnabranchError as error:
            if not isinstance(error, NodeUnreachable | NotLeading) and self._failure is None:
                _log.warning("Entry point %s cannot be reached: %s", self._peer, error)
            self._failure = error
            return self._line.failed()
        self._failure = None
        return again_s

    def _greet(self) -> None:
        """As long as an entry point has not begun, it says so again."""
        for source, met in self._line.greetings().items():
            entry = self._entries[source]
            greeting = Greeting(source=source, form=entry.form, name=self._name, met=met)
            entry.answered(self._peer, self._client.greet(greeting))

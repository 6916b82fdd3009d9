"""What lies between this node and one other, where a link is emulated: each connection passes through here, delayed.

    this node ── near end ─► there ─► far end ── the other node
                          ◄─  back ◄─

A connection has two flows. What one end sends is held until it is due, and then written to the other end: delay and
jitter decide when (never so that bytes overtake each other), a line that all connections of the link share decides how
much. A flow that holds as much as it may stops reading, so that whoever sends is held back as by a real network.

A cut is silence, as when a router dies: what is on the way and what is sent meanwhile is held, a connection that is
opened meanwhile gets no answer, and nobody is told. After it, connections go on where they were, unless one of the two
sides has given up: then the other one hears of it now.

Everything here runs in the thread of ``Relays``, on one event loop.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from anabranch import limits
from anabranch.model.links import Link, LinkFault, LinkState
from anabranch.runtime.status import LinkStatus

_SECOND_US: Final = 1_000_000

_CHUNK_COST: Final = 512
"""Bytes of memory that a chunk takes beside its contents: one-byte chunks must not cost more than is counted."""

_WRITE_BYTES: Final = 256 << 10
"""Bytes that may wait in an end for its socket: as much as asyncio reads at once."""

_PIECE_S: Final = 0.005
"""At a limited rate, what is written at once is what the line takes in this time..."""

_PIECE_BYTES: Final = 1_500
"""...but not less than a packet."""

_LATE_S: Final = 0.02
"""How much later than it might have a line may be used without losing that time: timers are late by a few ms."""

_MIN_HELD_BYTES: Final = 64 << 10

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that makes closing a reset: the other side must not take it for a proper end."""


class _Line:
    """One direction of a link. Its connections take turns on it, a piece each, where its rate is limited."""

    def __init__(self) -> None:
        self.bytes = 0
        self._free_at = 0.0
        self._waiting: deque[_Flow] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def is_busy(self, now: float) -> bool:
        return bool(self._waiting) or self._free_at > now

    def wait(self, flow: _Flow, loop: asyncio.AbstractEventLoop) -> None:
        """It is this flow's turn when all others that wait have had theirs."""
        if flow not in self._waiting:
            self._waiting.append(flow)
        if self._timer is None:
            self._timer = loop.call_at(self._free_at, self._next, loop)

    def take(self, now: float, size: int, rate_bytes_s: int | None) -> None:
        self.bytes += size
        if rate_bytes_s is not None:
            self._free_at = max(self._free_at, now - _LATE_S) + size / rate_bytes_s

    def free(self) -> None:
        """The rate has changed: whoever waits must ask again."""
        self._free_at = 0.0
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._waiting.popleft().send(has_turn=True)
        if self._waiting and self._timer is None:
            self._timer = loop.call_at(self._free_at, self._next, loop)


class Relay:
    """The way to one other node, once it listens. ``healthy`` is what the deployment file says of it."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, healthy: Link) -> None:
        self.address = ""
        """Where connections are led to."""
        self.listens_at = ""
        """Where they come in."""
        self.state = LinkState(link=healthy)
        self.open: Final = asyncio.Event()
        self.open.set()
        self.there: Final = _Line()
        self.back: Final = _Line()
        self._healthy: Final = healthy
        self._random: Final = random.Random()
        self._passages: Final[set[_Passage]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._server = await self.loop.create_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.listens_at = f"{host}:{port}"

    async def set(self, fault: LinkFault) -> None:
        """From now on, also for what is on the way."""
        was_cut = self.state.is_cut
        self.state = self.state.after(fault, self._healthy)
        if self.state.is_cut:
            self.open.clear()
            return
        self.there.free()
        self.back.free()
        self.open.set()
        for passage in list(self._passages):
            passage.changed(was_cut=was_cut)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        passages = list(self._passages)
        for passage in passages:
            passage.abort()
        await asyncio.gather(*(passage.wait_closed() for passage in passages))

    def statistics(self) -> LinkStatus:
        passages = list(self._passages)
        link = self.state.link
        return LinkStatus(
            state="cut" if self.state.is_cut else "open",
            address=self.address,
            relay=self.listens_at,
            delay_us=link.delay_us,
            jitter_us=link.jitter_us,
            rate_bytes_s=link.rate_bytes_s,
            connections=len(passages),
            bytes_there=self.there.bytes,
            bytes_back=self.back.bytes,
            bytes_held=sum(passage.held for passage in passages),
        )

    # --- for its connections ---------------------------------------------------------------------------------------

    @property
    def delay_s(self) -> float:
        return self.state.link.delay_us / _SECOND_US

    @property
    def longest_s(self) -> float:
        """The longest that anything takes."""
        return (self.state.link.delay_us + self.state.link.jitter_us) / _SECOND_US

    def latency_s(self) -> float:
        """How long the next message takes."""
        link = self.state.link
        if not link.jitter_us:
            return link.delay_us / _SECOND_US
        return (link.delay_us + self._random.uniform(-link.jitter_us, link.jitter_us)) / _SECOND_US

    def may_hold(self) -> int:
        """Bytes that a flow may hold: what is on the way, and what waits for the line as in the queue of a router."""
        rate = self.state.link.rate_bytes_s
        if rate is None:
            return limits.RELAY_BYTES
        return min(limits.RELAY_BYTES, max(_MIN_HELD_BYTES, int(rate * (self.longest_s + limits.RELAY_QUEUE_S))))

    def piece(self) -> int | None:
        """Bytes to write at once; None for all there are."""
        rate = self.state.link.rate_bytes_s
        return None if rate is None else max(_PIECE_BYTES, int(rate * _PIECE_S))

    def forget(self, passage: _Passage) -> None:
        self._passages.discard(passage)

    def _accept(self) -> _End:
        passage = _Passage(self, refused=len(self._passages) >= limits.RELAY_CONNECTIONS)
        self._passages.add(passage)
        return passage.near


class _Passage:
    """One connection, from the near end, which this node opened, to the far end, which is opened here."""

    def __init__(self, relay: Relay, *, refused: bool) -> None:
        self._relay: Final = relay
        self._refused: Final = refused
        self._dialling: asyncio.Task[None] | None = None
        self._closed: Final = asyncio.Event()
        self.near: Final = _End(self)
        self.far: Final = _End(self)
        self._there: Final = _Flow(relay, relay.there, self.near, self.far)
        self._back: Final = _Flow(relay, relay.back, self.far, self.near)

    @property
    def held(self) -> int:
        return self._there.held + self._back.held

    def opened(self, end: _End) -> None:
        if end is self.near:
            if self._refused:
                self.abort()
            else:
                self._dialling = self._relay.loop.create_task(self._dial())

    def out(self, end: _End) -> _Flow:
        """What this end sends."""
        return self._there if end is self.near else self._back

    def into(self, end: _End) -> _Flow:
        """What is sent to this end."""
        return self._back if end is self.near else self._there

    def ended(self, end: _End) -> None:
        if end is self.near and self.far.is_gone and self._relay.state.is_cut:
            self.abort()  # nobody but the one who gave up has ever heard of it
        else:
            self.out(end).end(_END)

    def lost(self, end: _End, error: Exception | None) -> None:
        """An end is gone: by itself, which the other one hears of in due time, or because it was closed here."""
        self.into(end).drop()
        if error is not None:
            self.out(end).end(_BREAK)
        if self.near.is_gone and self.far.is_gone:
            self.abort()

    def over(self, flow: _Flow) -> None:
        """A flow has brought its end, or its break, to the other side."""
        if flow.is_broken:
            self.abort()
        elif self._there.is_over and self._back.is_over:
            self.near.close()
            self.far.close()

    def changed(self, *, was_cut: bool) -> None:
        for flow in (self._there, self._back):
            flow.changed(was_cut=was_cut)

    def abort(self) -> None:
        """Both sides see a reset."""
        if self._dialling is not None:
            self._dialling.cancel()
        self._there.drop()
        self._back.drop()
        for end in (self.near, self.far):
            end.reset()
        if self.near.is_gone and self.far.is_gone:
            self._relay.forget(self)
            self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()
        if self._dialling is not None:
            await asyncio.wait([self._dialling])

    async def _dial(self) -> None:
        """As over a real network, a connection takes a round trip before anything can be sent."""
        await self._pass()
        host, _, port = self._relay.address.rpartition(":")
        try:
            await self._relay.loop.create_connection(lambda: self.far, host.strip("[]"), int(port))
        except OSError:
            await self._pass()
            self.abort()
            return
        await self._pass()
        now, delay_s = self._relay.loop.time(), self._relay.delay_s
        self._there.connected(now + delay_s)
        self._back.connected(now + 2 * delay_s)  # the other side hears of it only now

    async def _pass(self) -> None:
        """One way over the link."""
        await self._relay.open.wait()
        await asyncio.sleep(self._relay.latency_s())
        await self._relay.open.wait()


class _Mark:
    """What follows the last byte of a flow."""


_END: Final = _Mark()
_BREAK: Final = _Mark()


class _Flow:
    """One direction of a connection: what the source has sent and the target has not been given."""

    def __init__(self, relay: Relay, line: _Line, source: _End, target: _End) -> None:
        self._relay: Final = relay
        self._line: Final = line
        self._source: Final = source
        self._target: Final = target
        self._chunks: deque[tuple[float, memoryview | _Mark]] = deque()
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_connected = False
        self.is_full = False
        self.is_ending = False
        self.is_over = False
        self.is_broken = False
        self.held = 0

    def add(self, data: bytes) -> None:
        if self.is_over:
            return
        self._append(memoryview(data))
        self.held += len(data) + _CHUNK_COST
        if self.held > self._relay.may_hold():
            self._source.pause()
        self.send()

    def end(self, mark: _Mark) -> None:
        self.is_ending = True
        self._append(mark)
        self.send()

    def drop(self) -> None:
        """The target is gone: nothing more can be given to it."""
        self.is_over = True
        self._chunks.clear()
        self.held = 0
        self._stop_timer()

    def connected(self, earliest: float) -> None:
        """Both ends are there; nothing arrives before this."""
        self._is_connected = True
        self._put_off(earliest)

    def changed(self, *, was_cut: bool) -> None:
        """The link behaves otherwise. What is on the way arrives within its new delay, still in order."""
        now = self._relay.loop.time()
        latest = now + self._relay.longest_s
        self._last_due = min(self._last_due, latest)
        self._chunks = deque((min(due, latest), chunk) for due, chunk in self._chunks)
        if self._is_connected:
            self._put_off(now + self._relay.delay_s if was_cut else now)

    def _put_off(self, earliest: float) -> None:
        self._chunks = deque((max(due, earliest), chunk) for due, chunk in self._chunks)
        self._last_due = max(self._last_due, earliest)
        self._stop_timer()
        self.send()

    def _append(self, chunk: memoryview | _Mark) -> None:
        self._last_due = max(self._last_due, self._relay.loop.time() + self._relay.latency_s())
        self._chunks.append((self._last_due, chunk))

    def send(self, *, has_turn: bool = False) -> None:
        """Gives the target what is due, as far as line and target take it; then there may be room for more."""
        self._send_due(has_turn)
        if not self.is_ending and self.held <= self._relay.may_hold() // 2:
            self._source.resume()

    def _send_due(self, has_turn: bool) -> None:
        loop = self._relay.loop
        while self._chunks and self._timer is None and not self._is_stuck:
            now = loop.time()
            due, chunk = self._chunks[0]
            if due > now:
                self._timer = loop.call_at(due, self._awake)
            elif isinstance(chunk, _Mark):
                self._finish(chunk)
            elif self._line.is_busy(now) and not has_turn:
                self._line.wait(self, loop)
                return
            else:
                self._send_piece(now, due, chunk)
            has_turn = False

    @property
    def _is_stuck(self) -> bool:
        return not self._is_connected or self._relay.state.is_cut or self.is_full or self.is_over

    def _send_piece(self, now: float, due: float, chunk: memoryview) -> None:
        size = self._relay.piece() or len(chunk)
        if len(chunk) <= size:
            self._chunks.popleft()
            self.held -= len(chunk) + _CHUNK_COST
            piece = chunk
        else:
            piece = chunk[:size]
            self._chunks[0] = due, chunk[size:]
            self.held -= size
        self._line.take(now, len(piece), self._relay.state.link.rate_bytes_s)
        self._target.write(piece)

    def _finish(self, mark: _Mark) -> None:
        self._chunks.clear()
        self.is_over = True
        self.is_broken = mark is _BREAK
        if not self.is_broken:
            self._target.write_end()
        self._target.passage.over(self)

    def _awake(self) -> None:
        self._timer = None
        self.send()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _End(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(self, passage: _Passage) -> None:
        self.passage: Final = passage
        self._transport: asyncio.Transport | None = None
        self._is_paused = False

    @property
    def is_gone(self) -> bool:
        """Never opened, or closed for good."""
        return self._transport is None

    # --- what asyncio tells ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_BYTES)
        self._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.passage.opened(self)

    def data_received(self, data: bytes) -> None:
        self.passage.out(self).add(data)

    def eof_received(self) -> bool:
        self.passage.ended(self)
        return True  # the other direction goes on

    def pause_writing(self) -> None:
        self.passage.into(self).is_full = True

    def resume_writing(self) -> None:
        flow = self.passage.into(self)
        flow.is_full = False
        flow.send()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.passage.lost(self, error)

    # --- what the passage wants ------------------------------------------------------------------------------------

    def write(self, data: memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def write_end(self) -> None:
        if self._transport is not None:
            with suppress(OSError):  # it has gone, which is told to us next
                self._transport.write_eof()

    def pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        if self._transport is not None:
            with suppress(OSError):  # closed by the other side at the same time
                self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def _socket(self) -> Any:
        assert self._transport is not None
        return self._transport.get_extra_info("socket")

"""The journals and the logs for Spark's JVM, over a plain socket: frames in both directions, rows as Arrow messages.

A frame is a letter, a length and a body. A client first shows what this start of the node gave to Spark, its token, and
by which release of the connector (``jvm/``) it speaks. Then it asks, one question at a time, in JSON:

    latest   how far the next batch may read; held while there is no news    → NUMBERS (the cuts), what ``read``
             gives of it if that is little and at hand, or END
    ranges   how a batch is divided among tasks                              → NUMBERS (the cuts)
    read     the rows of a range                                             → SCHEMA, ROWS …, CONTROL, END
    log      here is what a batch made: SCHEMA, ROWS …, END                  → WAIT …, END when it is durable

So an ordinary small batch asks twice: ``latest``, for each scan, and ``log``. A batch that runs again after a failure
knows where it ends, and asks for ``ranges`` and ``read``. Any answer may end with REFUSED and a sentence, also in the
middle of a range. Everything is bounded: connections, bytes of a question and of a batch, and every wait. What a client
sends can end its own connection, and nothing else.
Must not know what a journal or a log is: the node behind ``JournalPorts`` does.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import struct
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from anabranch import failpoints, limits
from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.selection import ALL_ROWS, Selection, from_text
from anabranch.transport import failures, plain
from anabranch.transport.failures import cannot_listen

_log: Final = logging.getLogger(__name__)

VERSION: Final = 1
"""What ``jvm/`` writes into its questions."""

HELLO: Final = b"H"
QUESTION: Final = b"Q"
NUMBERS: Final = b"N"
SCHEMA: Final = b"S"
ROWS: Final = b"R"
CONTROL: Final = b"C"
END: Final = b"E"
WAIT: Final = b"W"
REFUSED: Final = b"X"

HEAD: Final = struct.Struct(">cI")
HELLO_BYTES: Final = 4 << 10
QUESTION_BYTES: Final = 1 << 20
"""A question names columns: some ten thousand of the longest."""

ROWS_BYTES: Final = 1 << 28
"""One Arrow message of a batch. The connector makes them 16 MiB at most, or one row."""

FLUSH_BYTES: Final = 256 << 10
FLUSH_FRAMES: Final = 64
"""Frames are sent together up to here: a live stream consists of small segments, and a call for each would cost more
than their bytes."""

RECEIVE_BYTES: Final = 16 << 10
"""What is received at once, when less is needed: the frames of a small batch are one call."""

SEND_BUFFER_BYTES: Final = 1 << 20
_ACCEPT_AGAIN_S: Final = 0.1

Body: TypeAlias = bytes | pa.Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRequest:
    """These columns of the segments in ``(after_seq, to_seq]``; rows outside of ``rows`` may be left out."""

    stream: str
    after_seq: int
    to_seq: int
    columns: Sequence[str]
    rows: Selection = ALL_ROWS


class Rows(NamedTuple):
    """One Arrow message of a range."""

    message: Body


class Control(NamedTuple):
    """The control row of a range, which is its last: the smallest punctuation there."""

    time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBatch:
    """What one micro-batch of a stage made. ``life`` says by which start of its query, and ``query`` is Spark's id of
    the checkpoint. Spark dropped so many rows as late in the batch before; there must be none."""

    stage: str
    life: int
    query: str
    batch_id: int
    dropped: int
    took_s: float
    table: pa.Table


class JournalPorts(Protocol):
    """What a node offers to Spark."""

    def latest(self, stream: str, stage: str, scan: int, after_seq: int, max_rows: int) -> int:
        """The last segment that a batch of ``stage`` may end with: about ``max_rows`` rows after ``after_seq``.

        A stage that reads a stream in several places asks once for each, its ``scan``; all get the same answer.
        """
        ...

    def ranges(self, stream: str, after_seq: int, to_seq: int, at_most: int) -> list[int]:
        """Where to cut the segments in ``(after_seq, to_seq]`` for tasks, with both ends."""
        ...

    def is_at_hand(self, stream: str, after_seq: int, to_seq: int) -> bool:
        """Whether the segments in ``(after_seq, to_seq]`` are few and small, and in memory."""
        ...

    def read(self, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        """The rows of a range and its control row, and the schema that the messages have: at least the columns that
        are asked for."""
        ...

    def wait_room(self, stage: str, life: int, seconds: float) -> bool:
        """Whether a batch of the stage can be logged, after a wait of so long at most."""
        ...

    def log(self, batch: MadeBatch) -> None:
        """Returns when the batch is durable. The same batch may come again."""
        ...


class JournalServer:
    """Serves ``ports`` from construction until ``stop``, to whoever knows ``token`` and speaks ``release``.

    Port 0 takes any free one; ``address`` says which.
    """

    def __init__(self, ports: JournalPorts, host: str, port: int = 0, *, release: str) -> None:
        self.token: Final = secrets.token_hex(16)
        self._ports = ports
        self._release = release
        self._open: dict[socket.socket, threading.Thread] = {}
        self._changing = threading.Lock()
        self._stopping = False
        try:
            plain = host.strip("[]")  # an address of IPv6 is written in brackets
            family, *_ = socket.getaddrinfo(plain, port, type=socket.SOCK_STREAM)[0]
            self._listener = socket.create_server((plain, port), family=family, backlog=limits.SPARK_CONNECTIONS)
        except OSError as error:
            raise cannot_listen(host, port, str(error)) from error
        self.address: Final = f"{host}:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, name="journals", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Ends every connection; what a thread still does for one ends with its next step."""
        with self._changing:
            self._stopping = True
            left = dict(self._open)
        for open_socket in (self._listener, *left):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for it; closing alone would not
        self._listener.close()
        deadline = time.monotonic() + limits.STOP_WAIT_S
        for thread in (self._acceptor, *left.values()):
            if thread.ident is not None:  # one for which there was no room was never started
                thread.join(max(0.0, deadline - time.monotonic()))

    def statistics(self) -> dict[str, int]:
        return {"connections": len(self._open)}

    def _accept(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
                self._take(connection)
            except (OSError, RuntimeError):  # stopped, or no descriptor or thread is left for another one
                if not self._stopping:
                    time.sleep(_ACCEPT_AGAIN_S)

    def _take(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="journal reader", daemon=True)
        with self._changing:
            too_many = len(self._open) >= limits.SPARK_CONNECTIONS
            if not too_many and not self._stopping:
                self._open[connection] = thread
        if too_many or self._stopping:
            connection.close()
            return
        try:
            thread.start()
        except RuntimeError:
            self._close(connection)
            raise

    def _close(self, connection: socket.socket) -> None:
        with self._changing:
            self._open.pop(connection, None)
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            frames = _Frames(connection)
            if self._admits(frames):
                while (question := frames.receive(QUESTION, QUESTION_BYTES, limits.SPARK_IDLE_S)) is not None:
                    self._answer(question, frames)
        except (_Gone, OSError):
            pass  # whoever asked has gone, or says nothing that we know, or we are stopping
        finally:
            self._close(connection)

    def _admits(self, frames: _Frames) -> bool:
        hello = frames.receive(HELLO, HELLO_BYTES, limits.SPARK_HELLO_S)
        if hello is None:
            return False
        try:
            message = plain.decode(hello, VERSION)
            self._check(plain.text(message, "token"), plain.text(message, "release"))
        except AnabranchError as error:
            frames.refuse(error)
            return False
        return True

    def _check(self, token: str, release: str) -> None:
        if not hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            raise ConfigError("Only the Spark of this node may read its journals.", remedy="Subscribe to the stream.")
        if release != self._release:
            raise ConfigError(
                f"Spark runs release {release[:40]} of Anabranch's connector; this node needs {self._release}.",
                remedy="Remove every other Anabranch jar from spark.jars and from Spark's class path.",
            )

    def _answer(self, question: bytes, frames: _Frames) -> None:
        try:
            self._answer_to(plain.decode(question, VERSION), frames)
            frames.flush()
        except _Gone:
            raise
        except AnabranchError as error:
            frames.refuse(error)
        except Exception as error:
            _log.exception("a request from Spark failed")
            frames.refuse(failures.internal(error))

    def _answer_to(self, message: plain.Message, frames: _Frames) -> None:
        ask = plain.text(message, "ask")
        if ask == "log":
            self._log(message, frames)
            return
        stream = plain.text(message, "stream")
        match ask:
            case "latest":
                self._send_latest(stream, message, frames)
            case "ranges":
                after, to, at_most = (_count(message, key) for key in ("after", "to", "at_most"))
                frames.numbers(self._ports.ranges(stream, after, to, at_most))
            case "read":
                self._send_range(_request(stream, message, _count(message, "to")), frames)
            case other:
                raise ConfigError(
                    f"Spark sent an unknown request: {other[:40]!r}.",
                    remedy="It can send latest, ranges, read and log.",
                )

    def _send_latest(self, stream: str, message: plain.Message, frames: _Frames) -> None:
        stage, scan = plain.text(message, "stage"), _count(message, "scan")
        after, max_rows = _count(message, "after"), _count(message, "max_rows")
        at_most, asked = _count(message, "at_most"), _request(stream, message, after)
        to = self._ports.latest(stream, stage, scan, after, max_rows)
        cuts = self._ports.ranges(stream, after, to, at_most)
        frames.numbers(cuts)
        if len(cuts) == 2 and self._ports.is_at_hand(stream, after, to):
            self._send_range(replace(asked, to_seq=to), frames)
        else:
            frames.add(END, b"")

    def _log(self, message: plain.Message, frames: _Frames) -> None:
        """Takes all of the batch before anything is said: what is refused is no longer on its way then."""
        table = _table(frames)
        batch = MadeBatch(
            stage=plain.text(message, "stage"),
            life=_count(message, "life"),
            query=plain.text(message, "query"),
            batch_id=_count(message, "batch"),
            dropped=_count(message, "dropped"),
            took_s=_count(message, "took_us") / 1_000_000,
            table=table,
        )
        while not self._ports.wait_room(batch.stage, batch.life, limits.NEWS_WAIT_S):
            frames.add(WAIT, b"")
            frames.flush()
        self._ports.log(batch)
        frames.add(END, b"")

    def _send_range(self, request: JournalRequest, frames: _Frames) -> None:
        schema, pieces = self._ports.read(request)
        frames.add(SCHEMA, schema.serialize())
        with closing(pieces):
            for piece in pieces:
                match piece:
                    case Rows(message):
                        frames.add(ROWS, message)
                        failpoints.reach("journal.range")
                    case Control(time_us):
                        frames.add(CONTROL, struct.pack(">q", time_us))
        frames.add(END, b"")


class _Gone(Exception):
    """The other side of a connection has closed it, or is silent for too long, or sends what is no frame."""


class _Frames:
    """One connection. What is added is sent when it is enough, or at a flush.

    The kernel ends its waits, not Python: a message of megabytes is one call then, and the interpreter is not needed
    again for each piece that the reader has taken. Small frames come several at a time.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._wait_at_most(socket.SO_SNDTIMEO, limits.SPARK_STALL_S)
        self._waiting: list[memoryview] = []
        self._bytes = 0
        self._come = b""
        """What has come and was not asked for yet."""

    def receive(self, kind: bytes, most: int, wait_s: float) -> bytes | None:
        """The body of the next frame, which must be of this kind; None if none comes. One that is too large, or no
        frame at all, is not read."""
        frame = self.next((kind,), most, wait_s)
        return None if frame is None else bytes(frame[1])

    def next(self, kinds: Sequence[bytes], most: int, wait_s: float) -> tuple[bytes, bytearray] | None:
        """The next frame, which must be one of these."""
        deadline = time.monotonic() + wait_s
        head = self._read(HEAD.size, deadline)
        if head is None:
            return None
        letter, length = HEAD.unpack(head)
        if letter not in kinds or length > most:
            raise _Gone
        body = self._read(length, deadline)
        return None if body is None else (letter, body)

    def expect(self, kinds: Sequence[bytes]) -> tuple[bytes, bytearray]:
        """A frame that must come, because what came before says so."""
        frame = self.next(kinds, ROWS_BYTES, limits.SPARK_STALL_S)
        if frame is None:
            raise _Gone
        return frame

    def add(self, kind: bytes, body: Body) -> None:
        view = memoryview(body)
        self._waiting += (memoryview(HEAD.pack(kind, view.nbytes)), view)
        self._bytes += view.nbytes
        if self._bytes >= FLUSH_BYTES or len(self._waiting) >= 2 * FLUSH_FRAMES:
            self.flush()

    def numbers(self, numbers: Sequence[int]) -> None:
        self.add(NUMBERS, struct.pack(f">{len(numbers)}q", *numbers))

    def refuse(self, error: AnabranchError) -> None:
        self.add(REFUSED, str(error).encode(errors="replace"))
        self.flush()

    def flush(self) -> None:
        left = [view for view in self._waiting if view.nbytes]
        self._waiting, self._bytes = [], 0
        try:
            while left:
                left = _after(left, self._connection.sendmsg(left))
        except OSError as error:
            raise _Gone from error

    def _read(self, count: int, deadline: float) -> bytearray | None:
        body = bytearray(count)
        left = self._take(memoryview(body))
        while left:
            try:
                self._wait_at_most(socket.SO_RCVTIMEO, deadline - time.monotonic())
                if len(left) >= RECEIVE_BYTES:
                    read = self._connection.recv_into(left)
                    left = left[read:]
                else:
                    self._come = self._connection.recv(RECEIVE_BYTES)
                    read = len(self._come)
                    left = self._take(left)
            except OSError as error:
                raise _Gone from error
            if not read:
                return None
        return body

    def _take(self, wanted: memoryview) -> memoryview:
        """Of what has come; returns the rest that is wanted."""
        count = min(len(wanted), len(self._come))
        wanted[:count], self._come = self._come[:count], self._come[count:]
        return wanted[count:]

    def _wait_at_most(self, what: int, seconds: float) -> None:
        micros = max(1, round(seconds * 1_000_000))  # none at all would be for ever
        self._connection.setsockopt(socket.SOL_SOCKET, what, struct.pack("@ll", *divmod(micros, 1_000_000)))


def _after(views: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of them after the first bytes were sent."""
    for index, view in enumerate(views):
        if sent < view.nbytes:
            return [view[sent:], *views[index + 1 :]]
        sent -= view.nbytes
    return []


def _table(frames: _Frames) -> pa.Table:
    """The rows of a batch, as they follow its question. Too many are read to their end, to be refused in words."""
    _, head = frames.expect((SCHEMA,))
    schema = pa.ipc.read_schema(pa.py_buffer(head))
    batches: list[pa.RecordBatch] = []
    size = 0
    kind, body = frames.expect((ROWS, END))
    while kind == ROWS:
        size += len(body)
        if size > limits.BATCH_BYTES:
            batches.clear()
        else:
            batches.append(_rows(body, schema))
        kind, body = frames.expect((ROWS, END))
    if size > limits.BATCH_BYTES:
        raise ConfigError(
            f"A micro-batch made {size >> 20} MiB of rows; the limit is {limits.BATCH_BYTES >> 20} MiB.",
            remedy="Let it read fewer rows: --batch-rows.",
        )
    return pa.Table.from_batches(batches, schema)


def _rows(body: bytearray, schema: pa.Schema) -> pa.RecordBatch:
    rows = pa.ipc.read_record_batch(pa.py_buffer(body), schema)
    rows.validate()  # lengths and offsets: what is wrong there would be read from memory that is not ours
    return rows


def _request(stream: str, message: plain.Message, to_seq: int) -> JournalRequest:
    return JournalRequest(
        stream=stream,
        after_seq=_count(message, "after"),
        to_seq=to_seq,
        columns=plain.texts(message, "columns"),
        rows=_selection(plain.text(message, "rows")),
    )


def _count(message: plain.Message, key: str) -> int:
    """A number that SQLite can hold, also after another was added."""
    number = plain.number(message, key)
    if not 0 <= number < 1 << 60:
        raise ConfigError(f"A request from Spark has {number} as {key!r}.", remedy="Only Spark sends this request.")
    return number


def _selection(value: str) -> Selection:
    try:
        return from_text(value)
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(
            f"{value[:100]!r} does not say which rows are needed.", remedy="Only Spark sends this request."
        ) from None

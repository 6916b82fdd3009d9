"""What is known of a log without reading it, and who may be told: the committed states, and a bell when they grow.

States are frozen values; a transaction makes new ones, and the store publishes them after COMMIT. The refusals are
the rules about a state that need no database. Must not write, and reads only to find a place in a log.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from anabranch.errors import StateError, StreamNotFound, check
from anabranch.storage import codec
from anabranch.storage.connection import Connection, one_row


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """What a log is made for. ``schema`` has the data columns only; ``origins`` is the sorted table of the query."""

    name: str
    schema: pa.Schema
    origins: tuple[str, ...]
    kind: str
    retention_us: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two segments: everything up to ``seq``, counted from the beginning of the log."""

    seq: int
    id: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Recent:
    """A segment that was just appended, as it is stored."""

    seq: int
    first_id: int
    body: bytes | memoryview | pa.Buffer | None
    punctuations: Mapping[str, int]
    appended_us: int


RECENT_SEGMENTS: Final = 8
RECENT_BYTES: Final = 16 << 10
"""Of each log, so many of the last segments stay in memory, if none of them is larger: whoever follows the log is told
of a segment at once, and need not read it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """All that is known of a log without reading it. ``readers`` maps each to the last segment it acknowledged."""

    number: int
    spec: LogSpec
    incarnation: str
    end: Mark
    trimmed: Mark
    punctuations: Mapping[str, int]
    trimmed_punctuations: Mapping[str, int]
    trimmed_tops: Mapping[str, int]
    """The largest stream time of each origin among the rows that went."""
    readers: Mapping[str, int]
    cut_off: frozenset[str]
    stored_schema: pa.Schema = field(repr=False)
    codes: Mapping[str, int] = field(repr=False)
    recent: tuple[Recent, ...] = field(repr=False, default=())
    """The last segments, without a gap between them; maybe none."""

    @property
    def bytes(self) -> int:
        return self.end.bytes - self.trimmed.bytes

    def grown(self, end: Mark, added: Recent) -> LogState:
        """With a segment more. This is said of every append, so it is spelled out: ``replace`` takes ten times as
        long."""
        return LogState(
            number=self.number,
            spec=self.spec,
            incarnation=self.incarnation,
            end=end,
            trimmed=self.trimmed,
            punctuations=added.punctuations,
            trimmed_punctuations=self.trimmed_punctuations,
            trimmed_tops=self.trimmed_tops,
            readers=self.readers,
            cut_off=self.cut_off,
            stored_schema=self.stored_schema,
            codes=self.codes,
            recent=(*self.recent[1 - RECENT_SEGMENTS :], added) if len(added.body or b"") <= RECENT_BYTES else (),
        )


class _Waiter:
    """Someone who sleeps until a log has what is waited for, or is woken to look around."""

    __slots__ = ("_bell", "_is_rung", "is_there", "log")

    def __init__(self, log: str, is_there: Callable[[LogState], bool]) -> None:
        self.log: Final = log
        self.is_there: Final = is_there
        self._bell = threading.Lock()
        self._bell.acquire()
        self._is_rung = False

    def sleep(self, timeout_s: float) -> None:
        self._bell.acquire(timeout=timeout_s)

    def ring(self) -> None:
        """With the lock of ``Published``."""
        if not self._is_rung:
            self._is_rung = True
            self._bell.release()


Bell = Callable[[], None]
"""It must return at once: a commit waits for it."""


class Published:
    """The committed states of a store's logs, and the bells that ring when they grow. Who waits for one log is not
    woken for another, nor for less than it waits for."""

    def __init__(self) -> None:
        self._states: dict[str, LogState] = {}
        self._open = True
        self._lock = threading.Lock()
        self._waiters: list[_Waiter] = []
        self._on_growth: dict[str, list[Bell]] = {}
        self._on_follower: dict[str, list[Bell]] = {}
        self._followers: Counter[str] = Counter()

    def states(self) -> dict[str, LogState]:
        return dict(self._states)

    def state(self, name: str) -> LogState:
        """Without the lock: what is published is replaced as a whole, and never changed."""
        state = self._states.get(name)
        if state is None:
            raise StreamNotFound(f"There is no log {name!r} in this store.")
        return state

    def recent(self, name: str) -> tuple[Recent, ...]:
        """The last segments of a log, as long as the store is open."""
        return self.state(name).recent if self._open else ()

    def publish(self, states: Mapping[str, LogState]) -> None:
        with self._lock:
            before, self._states = self._states, dict(states)
            for waiter in self._waiters:
                state = states.get(waiter.log)
                if state is not None and state is not before.get(waiter.log) and waiter.is_there(state):
                    waiter.ring()
        for name, bells in list(self._on_growth.items()):
            known = before.get(name)
            if name in states and (known is None or states[name].end.seq != known.end.seq):
                _ring(bells)

    def on_growth(self, name: str, bell: Bell) -> None:
        """From now on ``bell`` is rung for each new segment of a log."""
        self._on_growth[name] = [*self._on_growth.get(name, ()), bell]

    def on_follower(self, name: str, bell: Bell) -> None:
        """From now on ``bell`` is rung when a log is followed that nobody followed."""
        self._on_follower[name] = [*self._on_follower.get(name, ()), bell]

    @contextmanager
    def followed(self, name: str) -> Iterator[None]:
        """While somebody waits for what comes next in a log."""
        with self._lock:
            self._followers[name] += 1
            is_first = self._followers[name] == 1
        if is_first:
            _ring(self._on_follower.get(name, ()))
        try:
            yield
        finally:
            with self._lock:
                self._followers[name] -= 1

    def is_followed(self, name: str) -> bool:
        return self._followers[name] > 0

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._ring_all()

    def wake(self) -> None:
        """Whoever waits looks around."""
        with self._lock:
            self._ring_all()

    def wait_beyond(self, name: str, seq: int, timeout_s: float) -> bool:
        return self._wait(name, lambda state: state.end.seq > seq, timeout_s)

    def wait_row(self, name: str, id: int, timeout_s: float) -> bool:
        return self._wait(name, lambda state: state.end.id >= id, timeout_s)

    def _wait(self, name: str, is_there: Callable[[LogState], bool], timeout_s: float) -> bool:
        with self._lock:
            if is_there(self._states[name]):
                return True
            if not self._open:
                return False
            waiter = _Waiter(name, is_there)
            self._waiters.append(waiter)
        try:
            waiter.sleep(timeout_s)
        finally:
            with self._lock:
                self._waiters.remove(waiter)
        return is_there(self._states[name])

    def _ring_all(self) -> None:
        for waiter in self._waiters:
            waiter.ring()


def _ring(bells: Iterable[Bell]) -> None:
    for bell in bells:
        bell()


def find_mark(connection: Connection, state: LogState, seq: int) -> Mark | None:
    """The place after ``seq``, or None if the log does not hold it."""
    for known in (state.end, state.trimmed):
        if seq == known.seq:
            return known
    if not state.trimmed.seq < seq < state.end.seq:
        return None
    row = one_row(connection, "SELECT last_id, end_bytes FROM segments WHERE log = ? AND seq = ?", (state.number, seq))
    return Mark(seq, row[0], row[1]) if row else None


def find_punctuations(connection: Connection, state: LogState, seq: int) -> dict[str, int] | None:
    """The punctuations after ``seq``, or None if the log does not hold it."""
    if seq == state.end.seq:
        return dict(state.punctuations)
    if seq == state.trimmed.seq:
        return dict(state.trimmed_punctuations)
    row = one_row(connection, "SELECT punctuations FROM segments WHERE log = ? AND seq = ?", (state.number, seq))
    return codec.decode_punctuations(row[0], state.spec.origins) if row else None


def raise_punctuations(state: LogState, punctuations: Mapping[str, int]) -> dict[str, int]:
    """The present punctuations, raised by the new ones."""
    raised = dict(state.punctuations)
    for origin, time in punctuations.items():
        if origin not in state.codes:
            check(False, f"Log {state.spec.name!r} has no origin {origin!r}.")
        old = raised.get(origin, 0)
        if time < old:
            check(False, f"The punctuation of {origin!r} in log {state.spec.name!r} went back from {old} to {time}.")
        raised[origin] = time
    return raised


def refuse_cut_off(state: LogState, reader: str) -> None:
    if reader in state.cut_off:
        raise StreamNotFound(
            f"Reader {reader!r} was cut off from log {state.spec.name!r}: it was the slowest when the log was full.",
            remedy="Remove the reader and subscribe again; what it had not read may be gone.",
        )


def refuse_not_held(state: LogState, reader: str, seq: int) -> None:
    if not state.trimmed.seq <= seq <= state.end.seq:
        raise StreamNotFound(
            f"Reader {reader!r} cannot be at segment {seq} of log {state.spec.name!r}: "
            f"it holds {state.trimmed.seq + 1} to {state.end.seq}.",
            remedy="Subscribe from a position that the log still holds.",
        )


def refuse_difference(old: LogSpec, new: LogSpec) -> None:
    for what, before, after in (
        ("kind", old.kind, new.kind),
        ("columns", _columns(old.schema), _columns(new.schema)),
        ("origins", list(old.origins), list(new.origins)),
    ):
        if before != after:
            raise StateError(
                f"Log {old.name!r} exists with different {what}: it has {before}, but {after} was requested.",
                remedy="A changed query needs a new state directory.",
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)

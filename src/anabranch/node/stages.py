"""The stages of a fragment on this node: each a Spark query, its logs, and someone who starts it again.

``StageRunner`` turns a batch of Spark into one transaction: the ledger decides whether the batch is new, the rows go to
the logs with the punctuations that the batch allows, and only then may Spark commit. A batch that failed runs again,
from the checkpoint, after a wait that grows; a stage that fails without progress at every try counts as failed: it
stands still until the node is started again, and the other stages go on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import pyarrow as pa

from anabranch import failpoints, limits
from anabranch.core.backoff import Backoff
from anabranch.core.ledger import Batch, Decision, decide
from anabranch.core.output import output_punctuations
from anabranch.core.pacing import HostLoad, Pace, Waiting
from anabranch.core.passing import Passing, raised
from anabranch.errors import AnabranchError, DiskFull, EngineError, InvariantBroken, StateError
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import internal_stream
from anabranch.model.punctuation import Punctuations, smallest
from anabranch.model.selection import ALL_ROWS
from anabranch.model.times import CLOSED_US, floor_ms
from anabranch.node.selecting import selected
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage, is_stateful, outputs_behind
from anabranch.query.selecting import selections
from anabranch.runtime.status import StageInputStatus, StageStatus, WaitsFor
from anabranch.storage.codec import stored_schema
from anabranch.storage.log import End, Log
from anabranch.storage.store import Store
from anabranch.storage.transaction import Appended, BatchRecord
from anabranch.transport.journals import MadeBatch

if TYPE_CHECKING:
    from anabranch.engine.run import StageBatch, StageRun

_RANGES: Final = msgspec.json.Encoder(order="deterministic")
_HEADER: Final = (TID, STIME, ORIGIN)
_BROKEN: Final = (InvariantBroken, StateError)
"""Errors that trying again cannot mend."""

LAST_MS: Final = floor_ms(CLOSED_US)
"""The watermark of journals that are closed: whoever waits for the end of a query waits for the boundaries that make
it."""

WATCH_S: Final = 1.0
"""How often a query is asked whether it still runs: each time is a call into the JVM."""

_NEXT_START: Final = "The next start will try again."
_CHANGE: Final = (
    "If a row cannot be computed, use an expression that tolerates it (try_divide, try_cast, nullif), and run the "
    "changed query on a new state directory."
)


def stage_reader(stage: str) -> str:
    """The name under which a stage reads its journals."""
    return f"stage:{stage}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment in the journals of a stage: their last segments, and the watermark that their punctuations make."""

    ends: Mapping[str, int]
    watermark_us: int


class Inflow(Protocol):
    """What brings rows into a journal from elsewhere, and may let them wait for the next batch (``node.inlet``)."""

    @property
    def stream(self) -> str: ...

    def waiting(self) -> tuple[int, bool]:
        """Rows that are not in the journal yet, and whether there is anything for it."""
        ...

    def rows_outside(self) -> list[pa.RecordBatch]:
        """These rows, some of them perhaps twice."""
        ...

    def take(self) -> None:
        """It is in the journal when this returns."""
        ...


@dataclass(slots=True)
class _Round:
    """One time that Spark asks the scans of a journal for news: what they are told, and who has asked."""

    end_seq: int
    answered: set[int] = field(default_factory=set)


class StageRunner:
    """One stage: started, logged, watched. Spark's callback thread logs; the node's supervisor starts and stops."""

    def __init__(
        self,
        diagram: Diagram,
        stage: Stage,
        run: StageRun,
        store: Store,
        inputs: Mapping[str, Log],
        *,
        origins: Callable[[str], frozenset[str]],
        clock: Callable[[], int],
        stopping: Callable[[], bool],
        disk_is_low: Callable[[], bool],
        batch_interval_us: int = limits.BATCH_INTERVAL_US,
        inflows: Sequence[Inflow] = (),
        load: HostLoad | None = None,
        spark_has_died: Callable[[], bool] = lambda: False,
        written: Callable[[str, int, pa.Table, Punctuations], None] = lambda *_: None,
        is_compared: bool = False,
    ) -> None:
        self.stage: Final = stage
        self.store: Final = store
        self.acknowledged: Mapping[str, int] = {}
        """Per input, the last segment that Spark has committed: read by the trimmer, lost at a crash, and harmless
        so."""
        self.failed: AnabranchError | None = None
        self.last_error: AnabranchError | None = None
        self._diagram = diagram
        self._run = run
        self._inputs = inputs
        self._inflows = inflows
        self._origins = origins
        self._waits = is_stateful(diagram, stage)
        self._selections = selections(diagram, stage)
        self._is_choosy = all(self._selections.get(stream, ALL_ROWS) != ALL_ROWS for stream in stage.inputs)
        """Whether there are rows in all inputs for which the stage has no use."""
        self._clock = clock
        self._stopping = stopping
        self._disk_is_low = disk_is_low
        self._spark_has_died = spark_has_died
        self._written = written
        self._is_compared = is_compared
        self._sink_error: AnabranchError | None = None
        self._backoff = Backoff()
        self._next_try = 0.0
        self._failure_noted = False
        self._rows_out = 0
        self._watermark_us = 0
        self._next_watermark_us = 0
        self._ends: Mapping[str, int] = {}
        self._said_us: Mapping[str, int] = {}
        """What each input had promised where the last batch ended."""
        self._tops: dict[str, tuple[int, int]] = {}
        """Per input, its last row, and the largest time of all rows up to it."""
        self._passing = Passing(diagram, stage)
        self._no_rows: dict[str, pa.Table] = {}
        """Of each log, made once: Arrow loads and asks a lot for an empty column."""
        self._passed = Mark(ends={}, watermark_us=0)
        """Up to where boundaries were passed on that Spark has not read."""
        self._must_run = True
        """Whether a batch has yet to show that the query runs, since it was started."""
        self._rounds: dict[str, _Round] = {}
        self._asked: set[int] = set()
        self._asking = threading.Lock()
        self._pace = Pace(most_s=batch_interval_us / 1_000_000)
        self._load = load or HostLoad()
        self._in_batch = self._is_held = False
        self._awaited: Mark | None = None
        self._held_s = 0.0
        self._logging = threading.Lock()
        self._logged: Batch | None = None
        """The last batch in the log. Only this stage logs there, so it is read at a start, and known from there on."""
        self._life = 0
        self._has_run = False
        self._starts = 0
        self._news = threading.Event()
        """Rung when a journal may have grown, or when a question for news shall end."""
        for log in inputs.values():
            log.on_growth(self._news.set)
        for target in stage.targets:
            store.log(target.stream).on_follower(self._news.set)

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self, journal_punctuation: Callable[[str], None]) -> None:
        """Starts the Spark query; every input says its punctuation again first, because Spark does not restore it."""
        for stream in self._inputs:
            journal_punctuation(stream)
        life = self._end_life()
        self._sink_error = None
        self._failure_noted = False
        self._must_run = True
        with self._asking:
            self._rounds.clear()
            self._asked.clear()
            self._in_batch = False
            self._starts += 1
        self._news.set()
        last = self._logged = self._last_batch()
        self._run.start(self._log, None if last is None else last.batch_id, life=life)

    def renew(self, run: StageRun) -> None:
        """Another Spark, which is to go on with the stage; ``start`` comes next. That the last one died was no failure
        of the stage."""
        self.lose()
        self._run = run
        self._backoff = Backoff()
        self.last_error = None

    def lose(self) -> None:
        """Spark is gone. A batch of it that waits for room in the log waits no longer."""
        self._end_life()
        self._has_run = False

    def _end_life(self) -> int:
        """What comes from a query that was started before does not count any more. A batch that is just being logged
        is logged: Spark's thread for it may outlive the Spark that it came from."""
        self._life += 1
        self._load.forget(self)
        with self._logging:
            return self._life

    def watch(self, journal_punctuation: Callable[[str], None]) -> float:
        """Starts a query again that has ended by itself. Returns the seconds after which to look again.

        One whose question is held lives. So Spark is asked only while a batch runs, if one does.
        """
        if self._is_held or self._run.running or self.failed is not None or self._stopping():
            return WATCH_S
        if self._spark_has_died():  # who started it starts another one
            return WATCH_S
        if not self._failure_noted:
            error = (
                self._sink_error or self._run.failure() or EngineError(f"Stage {self.stage.name} stopped unexpectedly.")
            )
            self._note_failure(error)
        if time.monotonic() >= self._next_try and self.failed is None:
            self._start_again(journal_punctuation)
        return min(WATCH_S, max(0.0, self._next_try - time.monotonic()))

    def _start_again(self, journal_punctuation: Callable[[str], None]) -> None:
        try:
            self.start(journal_punctuation)
        except Exception as error:  # whatever disk or Spark say: the housekeeper lives on
            ours = EngineError(f"Stage {self.stage.name} could not be restarted: {error}")
            self._note_failure(error if isinstance(error, AnabranchError) else ours)

    def _note_failure(self, error: AnabranchError) -> None:
        """Once for each time that the query ended: it decides when to try again, or that it is of no use."""
        self.last_error = error
        self._failure_noted = True
        if isinstance(error, _BROKEN):
            self.failed = error
            return
        if self._disk_is_low():  # waits for room, however long that takes
            self._next_try = time.monotonic() + limits.RESTART_BACKOFF_S[-1]
            return
        self._backoff = self._backoff.failed()
        if self._backoff.is_exhausted:
            self.failed = self._given_up(error)
            return
        self._next_try = time.monotonic() + self._backoff.wait_s

    def _given_up(self, error: AnabranchError) -> EngineError:
        outputs = outputs_behind(self._diagram, self.stage)
        still = f"The stage has stopped. Affected outputs: {', '.join(outputs)}."
        return EngineError(f"{error.message} {still}", remedy=f"{_NEXT_START} {error.remedy or _CHANGE}")

    @property
    def is_broken(self) -> bool:
        """Whether it failed in a way that leaves nothing on this node to be trusted: it must not go on wrongly."""
        return isinstance(self.failed, _BROKEN)

    def stop(self, deadline: float) -> None:
        """Ends the Spark query, after the batch under way and the empty one that it causes, if that is in time."""
        self._news.set()
        while self.has_run and self._run.running and time.monotonic() < deadline:
            if not self._run.has_open_batch() and not self.punctuation_is_pending():
                break
            time.sleep(0.02)
        self._run.stop()
        self._end_life()

    def keeps_read_rows(self, stream: str) -> bool:
        """Whether Spark has read a journal to its end, and keeps rows there only until a next batch begins."""
        log = self._inputs[stream]
        is_read = log.end_seq() in (self._ends.get(stream), self._passed.ends.get(stream))
        return is_read and log.rows_after(self.acknowledged.get(stream, 0)) > 0

    @property
    def has_run(self) -> bool:
        """Whether a batch has been logged since Spark started."""
        return self._has_run

    def punctuation_is_pending(self) -> bool:
        """Whether the last batch raised a punctuation whose results only the next, empty batch will show."""
        return self._waits and self._next_watermark_us > self._watermark_us

    # --- one batch -------------------------------------------------------------------------------------------------

    def take(self, made: MadeBatch) -> None:
        """A batch of Spark; returns when it is durable."""
        with self._logging:
            self._check_life(made.life)
            try:
                self._run.hand_over(
                    made.batch_id, made.table, lineage=made.query, dropped=made.dropped, took_s=made.took_s
                )
            except AnabranchError as error:  # Spark wraps what its sink raises; the supervisor wants the original
                self._sink_error = error
                raise

    def _check_life(self, life: int) -> None:
        if life != self._life:
            raise EngineError(f"A batch of stage {self.stage.name} came from a Spark query that has ended.")

    def _log(self, batch: StageBatch) -> None:
        ranges = {name: (batch.starts.get(name, 0), end) for name, end in batch.ends.items()}
        new = Batch(lineage=batch.lineage, batch_id=batch.batch_id, ranges=ranges)
        if decide(self.stage.name, self._logged, new) is Decision.APPEND:
            try:
                self._append(batch, new)
            except BaseException:  # it may be in the log all the same
                self._logged = self._last_batch()
                raise
            self._logged = new
        self.acknowledged = batch.starts  # what this batch starts after, Spark has committed
        self._ends = batch.ends
        self._watermark_us = batch.watermark_us
        self._has_run = True
        self._must_run = False
        self._backoff = Backoff()
        self.last_error = None

    def _append(self, batch: StageBatch, record: Batch) -> None:
        at_end = {stream: self._inputs[stream].punctuations_at(seq) for stream, seq in batch.ends.items()}
        root, port = self.stage.root, self.stage.port
        punctuations = output_punctuations(self._diagram, root, at_end, batch.watermark_us, port=port)
        tables = {stream: _header_first(table) for stream, table in batch.tables.items()}
        appended: dict[str, Appended] = {}
        now_us = self._clock()
        with self.store.transaction() as transaction:
            for stream, rows in tables.items():
                promised = raised(self.store.log(stream).punctuations(), punctuations)
                appended[stream] = transaction.append(stream, rows, promised, now_us=now_us)
                if stream == internal_stream(self.stage.root):
                    failpoints.reach("journal.append")
            transaction.record_batch(
                BatchRecord(
                    lineage=record.lineage,
                    batch_id=record.batch_id,
                    ranges=_RANGES.encode(record.ranges).decode(),
                    watermark_us=batch.watermark_us,
                )
            )
        for stream, rows in tables.items():
            self._written(stream, appended[stream].first_id, rows, self.store.log(stream).punctuations())
        self._rows_out += sum(table.num_rows for table in batch.tables.values())
        self._next_watermark_us = self._watermark_of(at_end)
        self._said_us = {name: smallest(said, self._origins(name)) for name, said in at_end.items()}

    def _watermark_of(self, promises: Mapping[str, Punctuations]) -> int:
        """What Spark makes of these promises of the inputs."""
        return floor_ms(min(smallest(promises[name], self._origins(name)) for name in promises))

    def _last_batch(self) -> Batch | None:
        record = self.store.last_batch()
        if record is None:
            return None
        ranges = {name: (start, end) for name, (start, end) in json.loads(record.ranges).items()}
        return Batch(lineage=record.lineage, batch_id=record.batch_id, ranges=ranges)

    def wait_room(self, life: int, seconds: float) -> bool:
        """Back-pressure: a full output log holds the batch, and so the journals, and so the entry points.

        False if there is no room after so long; then Spark hears that it has to wait on.
        """
        deadline = time.monotonic() + seconds
        while any(log.is_full() for log in self.store.logs.values()):
            self._check_life(life)
            if self._stopping():
                raise EngineError(f"Stage {self.stage.name} was stopped while it waited for room in its log.")
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    # --- looking in ------------------------------------------------------------------------------------------------

    def latest(self, stream: str, scan: int, after_seq: int, max_rows: int) -> int:
        """Where the next batch of a journal may end: the same for every scan of it.

        Spark asks each scan once before a batch. So the first that asks again begins a new round, and the others get
        what it got; a batch whose scans ended at different segments would join or unite different pasts.
        """
        asked_in = self._starts
        if self._begins_round(scan):
            self._wait_turn(asked_in)
        with self._asking:
            if self._starts != asked_in:  # its answer would begin a round that the query of now knows nothing of
                raise EngineError(f"The query of stage {self.stage.name} that asked has ended.")
            current = self._rounds.get(stream)
            if current is None or scan in current.answered or current.end_seq < after_seq:
                # A stop gives new rounds no news. One that has begun is answered to its end, like any other.
                end_seq = after_seq if self._stopping() else self._inputs[stream].latest_seq(after_seq, max_rows)
                current = self._rounds[stream] = _Round(end_seq)
            current.answered.add(scan)
            return current.end_seq

    def _begins_round(self, scan: int) -> bool:
        """Whether this is the first question before a batch: Spark asks every scan once, in an order of its own."""
        with self._asking:
            if self._asked and scan not in self._asked:
                self._asked.add(scan)
                return False
            self._asked = {scan}
            return True

    def _wait_turn(self, asked_in: int) -> None:
        """Holds the question until a batch may begin (``core.pacing``), or a while: asking costs more than waiting.

        It ends, too, when the query is started again: then the one that asked is gone.
        """
        asked = time.monotonic()
        if self._in_batch:
            self._pace = self._pace.ended(asked, beside_s=self._load.beside_s(self))
            self._load.took(self, self._pace.batch_s)
            self._in_batch = False
        self._is_held = True
        try:
            waiting, now = self._wait_until(asked, asked_in)
        finally:
            self._is_held = False
        self._held_s += now - asked
        self._take_inflows()
        if waiting.is_something and self._starts == asked_in:
            self._pace, self._in_batch = self._pace.began(waiting, now), True

    def _wait_until(self, now: float, asked_in: int) -> tuple[Waiting, float]:
        """Until a batch may begin, or nobody waits for one: what the batch has to do, and when that is."""
        read: dict[str, int] = {}
        latest = now + limits.NEWS_WAIT_S
        while True:
            self._news.clear()  # before looking: what comes after the look rings again
            waiting = self._waiting(read)
            left_s = min(self._wait_s(waiting, now), latest - now)
            if now >= latest or self._stopping() or self._starts != asked_in:
                return waiting, now
            if left_s > 0:
                self._news.wait(left_s)
            elif self._has_only_boundaries(waiting, now) and self._pass_on(read, asked_in):
                self._pace = self._pace.passed(now)
            elif self._has_few_rows(waiting, now) and self._does_without(waiting, read, now, asked_in):
                self._pace = self._pace.looked(now)
            else:
                return waiting, now
            now = time.monotonic()

    def _has_only_boundaries(self, waiting: Waiting, now: float) -> bool:
        """Whether a batch would begin for boundaries and nothing else that shows."""
        others = replace(waiting, boundaries=False)
        shows = waiting.results or (waiting.rows and not waiting.kept)
        return waiting.boundaries and not shows and self._pace.wait_s(others, now) > 0

    def _has_few_rows(self, waiting: Waiting, now: float) -> bool:
        """Whether a batch would begin for a few rows, of which the stage may want none, and for nothing else."""
        shows = waiting.is_much or waiting.results
        return self._is_choosy and not shows and self._pace.wait_s(replace(waiting, rows=0, boundaries=False), now) > 0

    def _does_without(self, waiting: Waiting, read: dict[str, int], now: float, asked_in: int) -> bool:
        """Whether the stage has no use for any of a few rows. The boundaries behind them are passed on if it is time.
        Otherwise rows that wait outside of the journals are only looked at: they cost no transaction."""
        if not self._pace.may_pass(waiting, now):
            return self._wants_none_outside() and self._wants_none(read)
        self._take_inflows()
        if not (self._wants_none(read) and self._pass_on(read, asked_in)):
            return False
        self._pace = self._pace.passed(now)
        return True

    def _wants_none_outside(self) -> bool:
        return not any(
            selected(rows, self._selections.get(inflow.stream, ALL_ROWS)).num_rows
            for inflow in self._inflows
            for rows in inflow.rows_outside()
        )

    def _wants_none(self, read: dict[str, int]) -> bool:
        """Whether the stage has no use for any row in its journals that no batch has read; then they do not count any
        more."""
        ends = {name: log.end() for name, log in self._inputs.items()}
        unread = self._unread(ends, read)
        for name in unread:
            for segment in self._inputs[name].read(self._ends.get(name, 0), ends[name].seq):
                is_new = segment.rows is not None and segment.first_id + segment.rows.num_rows > read[name] + 1
                if is_new and selected(segment.rows, self._selections.get(name, ALL_ROWS)).num_rows:
                    return False
        read.update({name: ends[name].last_id for name in unread})
        return True

    def _pass_on(self, read: dict[str, int], asked_in: int) -> bool:
        """Promises what the boundaries in the journals allow, without a batch (``core.passing``); whether it can.

        A question is held, so no batch is under way: what was read up to ``self._ends`` is logged. A full journal is
        freed by a batch only. What is not in the journals yet is left for the next time, if there is other news.
        """
        if all(log.end_seq() <= self._done(name) for name, log in self._inputs.items()):
            self._take_inflows()
        with self._logging:
            logs = (*self._inputs.values(), *self.store.logs.values())
            if self._must_run or self._starts != asked_in or any(log.is_full() for log in logs):
                return False
            ends = {name: log.end() for name, log in self._inputs.items()}
            at = {name: end.punctuations for name, end in ends.items()}
            now_us, unread = self._watermark_of(at), self._unread(ends, read)
            rows = 0 if self._keeps(unread) else sum(unread.values())
            promised = self._passing.promised(at, rows=rows, before_us=self._watermark_us, now_us=now_us)
            if promised is None or not self._promise(promised):
                return False
            self._passed = Mark(ends={name: end.seq for name, end in ends.items()}, watermark_us=now_us)
            return True

    def _promise(self, promised: Punctuations) -> bool:
        """In every log of the stage, durably. False if there is no room on the disk: a batch will tell so."""
        logs = [self.store.log(target.stream) for target in self.stage.targets]
        said = {log.name: raised(log.punctuations(), promised) for log in logs}
        if any(said[log.name].items() - log.punctuations().items() for log in logs):
            try:
                with self.store.transaction() as transaction:
                    for log in logs:
                        transaction.append(log.name, None, said[log.name], now_us=self._clock())
            except DiskFull:
                return False
            for log in logs:
                if log.name not in self._no_rows:
                    self._no_rows[log.name] = stored_schema(log.spec.schema).empty_table()
                self._written(log.name, log.last_id() + 1, self._no_rows[log.name], log.punctuations())
        return True

    def _wait_s(self, waiting: Waiting, now: float) -> float:
        """How long until a batch may begin. Before the first one everything is news, and who waits for results waits
        for no pace."""
        if not self.has_run:
            return 0.0
        if self._awaited is not None and self.reached(self._awaited):
            self._awaited = None
        hurries = self._awaited is not None and waiting.is_something
        return 0.0 if hurries else self._pace.wait_s(waiting, now)

    def _waiting(self, read: dict[str, int]) -> Waiting:
        """What the next batch has to do. ``read`` has, for the journals that were looked at, the last row of the last
        batch: nothing moves it while a question is held."""
        ends = {name: log.end() for name, log in self._inputs.items()}
        rows = self._unread(ends, read)
        flows = False
        for inflow in self._inflows:
            count, is_there = inflow.waiting()
            rows[inflow.stream] = rows.get(inflow.stream, 0) + count
            flows = flows or is_there
        unread = any(end.seq > self._ends.get(name, 0) for name, end in ends.items())
        pending = self.punctuation_is_pending()
        shows = pending and self._passing.shows(self._watermark_us, self._next_watermark_us)
        news = flows or any(end.seq > self._done(name) for name, end in ends.items())
        unsaid = pending and not shows and self._next_watermark_us > self._passed.watermark_us
        count = sum(rows.values())
        at_us = self._watermark_of({name: end.punctuations for name, end in ends.items()})
        will_show = self._passing.shows(self._watermark_us, at_us)
        return Waiting(
            rows=count,
            kept=count > 0 and self._keeps(rows) and not will_show,
            choosy=self._is_choosy,
            boundaries=news or unsaid,
            awaited=will_show or at_us >= LAST_MS or self._is_read(),
            results=shows,
            upkeep=pending or unread or count > 0,
        )

    def _is_read(self) -> bool:
        """Whether anybody waits for what the stage promises: a reader of its logs, or who compares their copies."""
        return self._is_compared or any(self.store.log(target.stream).is_read for target in self.stage.targets)

    def _keeps(self, rows: Mapping[str, int]) -> bool:
        """Whether so many rows of the inputs, which no batch has read, show nothing yet. The largest times that were
        known before are no more than those of now: most rows of a busy Join need no look into its journals."""
        keeps = self._passing.keeps
        return keeps(rows, self._said_us, self._known_top_us) and keeps(rows, self._said_us, self._top_us)

    def _known_top_us(self, stream: str) -> int:
        return self._tops.get(stream, (0, 0))[1]

    def _top_us(self, stream: str) -> int:
        log = self._inputs[stream]
        last_id = log.last_id()
        known = self._tops.get(stream)
        if known is None or known[0] != last_id:
            known = self._tops[stream] = last_id, max(log.tops().values(), default=0)
        return known[1]

    def _unread(self, ends: Mapping[str, End], read: dict[str, int]) -> dict[str, int]:
        """The rows in each journal that no batch has read. Before the first batch that is not known."""
        rows: dict[str, int] = {}
        for name, end in ends.items() if self.has_run else ():
            if end.seq > self._ends.get(name, 0):
                if name not in read:
                    log = self._inputs[name]
                    read[name] = log.last_id() - log.rows_after(self._ends.get(name, 0))
                rows[name] = end.last_id - read[name]
        return rows

    def _done(self, stream: str) -> int:
        """The segment up to which all is logged, by a batch or without."""
        return max(self._ends.get(stream, 0), self._passed.ends.get(stream, 0))

    def may_wait(self, stream: str, promises: Punctuations) -> bool:
        """Whether no batch would begin now for a row that came now, with these promises; it will be asked for when one
        does. While a batch runs none begins. What lets a window end is to be in the journal at once, also then: the
        next batch is for it."""
        if not self.has_run or self._awaited is not None or self.failed is not None or self._stopping():
            return False
        if self._in_batch:
            return not self._ends_window(stream, promises)
        kept = self._keeps({stream: 1}) and not self._ends_window(stream, promises)
        waiting = Waiting(rows=1, kept=kept, choosy=self._is_choosy, boundaries=True, awaited=self._is_read())
        return self._pace.wait_s(waiting, time.monotonic()) > 0

    def hold_us(self) -> int:
        """How long the copies of its inputs may collect a few rows before they send them."""
        if not self.has_run or self._awaited is not None or self.failed is not None or self._stopping():
            return 0
        return round(self._pace.hold_s * 1_000_000)

    def _ends_window(self, stream: str, promises: Punctuations) -> bool:
        """Whether a journal with these promises would allow results that it does not allow yet."""
        said = self._inputs[stream].punctuations()
        before_us, now_us = (self._watermark_of({stream: each}) for each in (said, promises))
        return self._passing.shows(before_us, now_us)

    def ring(self) -> None:
        self._news.set()

    def _take_inflows(self) -> None:
        """What waits for the next batch, into the journals. What cannot be stored now waits on."""
        if not self._stopping():
            for inflow in self._inflows:
                with suppress(DiskFull):
                    inflow.take()

    def mark(self) -> Mark:
        """What the journals hold now, with what waited for the next batch."""
        self._take_inflows()
        watermark_us = self._watermark_of({name: log.punctuations() for name, log in self._inputs.items()})
        ends = {name: log.end_seq() for name, log in self._inputs.items()}
        return Mark(ends=ends, watermark_us=watermark_us if self._waits else 0)

    def hurry(self, mark: Mark) -> None:
        """Someone waits until the mark is reached: until then no batch waits for the pace."""
        self._awaited = mark
        self._news.set()

    def reached(self, mark: Mark) -> bool:
        """Whether all that the journals held at the mark is logged, with the results that its punctuations allow."""
        done = all(self._done(name) >= end for name, end in mark.ends.items())
        return done and max(self._watermark_us, self._passed.watermark_us) >= mark.watermark_us

    def statistics(self, replica: str, waits_for: WaitsFor) -> StageStatus:
        """State and last error, rows out, how far behind each journal, and how long a batch takes."""
        lag = {name: log.rows_after(self._ends.get(name, 0)) for name, log in self._inputs.items()}
        return StageStatus(
            replica=replica,
            state="failed" if self.failed else "running" if self._run.running else "restarting",
            error=str(self.failed or self.last_error or "") or None,
            inputs={name: StageInputStatus(lag_rows=rows) for name, rows in lag.items()},
            caught_up=self.reached(self.mark()),
            rows_out=self._rows_out,
            late_rows=self._run.late_rows,
            held_ms=round(self._held_s * 1000),
            batches=self._run.batches,
            batch_ms=round(self._run.batch_ms, 1),
            running=self._run.running,
            waits_for=waits_for,
        )


def _header_first(table: pa.Table) -> pa.Table:
    """As a log stores it."""
    data = [name for name in table.column_names if name not in _HEADER]
    return table.select([*_HEADER, *data])

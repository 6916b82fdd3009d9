"""A node: one query's fragment at one address.

Opens the state directory, serves it over Flight, accepts pushes at once, has Spark started, runs the stages, keeps the
lanes ticking and the logs trimmed. Everything that decides lies in ``core``; everything that lasts lies in ``storage``.

Spark is imported by nodes that need it, when they start it: without it an entry point starts a second sooner and takes
50 MB less, and a deployment has many.

Threads: Flight's own, which call the ports below; Spark's callback threads, which log batches; one for each feed and
writer; one that starts Spark and watches it; one that asks for digests; one housekeeper, which ticks the lanes, watches
the stages and trims; and, while the node is rebuilt from a peer, one that sees to that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    DiskFull,
    EngineError,
    InvariantBroken,
    QueryError,
    StateError,
    StreamNotFound,
)
from anabranch.model.links import LinkFault
from anabranch.model.names import internal_stream, late_stream
from anabranch.model.node_state import NodeState
from anabranch.model.position import Position
from anabranch.model.techniques import Technique
from anabranch.model.times import format_time
from anabranch.node.beginning import refuse_shared
from anabranch.node.entry import EntryPoint
from anabranch.node.feeding import Feeding
from anabranch.node.housekeeper import NEVER, Due, Housekeeper
from anabranch.node.inlets import Inlets
from anabranch.node.journals import Journals
from anabranch.node.lane_replica import Sharing
from anabranch.node.neighbours import Neighbours
from anabranch.node.part import Part, direct
from anabranch.node.peers import Peers
from anabranch.node.reading import wire_batches
from anabranch.node.rebuilding import Rebuilding
from anabranch.node.relays import Relays, faults_refused
from anabranch.node.settings import NodeSettings
from anabranch.node.shared_entry import SharedEntryPoint
from anabranch.node.snapshot import Snapshots
from anabranch.node.spark_host import Say, SparkHost, spark_settings
from anabranch.node.stages import WATCH_S, StageRunner
from anabranch.node.state import StateDirectory
from anabranch.node.streams import Streams, check_name
from anabranch.node.synchronizing import Synchronizing
from anabranch.node.tables import Agreement, digests, load_tables
from anabranch.node.telling import ComparedOutputs
from anabranch.node.turns import holds
from anabranch.node.writing import Writing, durable_writers
from anabranch.query.boxes import Diagram, Output, Source
from anabranch.query.builder import Query
from anabranch.query.graph import Stage, all_origins, sources_of
from anabranch.query.validate import validate
from anabranch.transport.journals import JournalServer
from anabranch.transport.ports import (
    CopyPiece,
    PieceAnswer,
    PieceRequest,
    Push,
    PushAnswer,
    ReadRequest,
    Registration,
    StreamInfo,
)
from anabranch.transport.server import FlightServer

_WATCH_EVERY_S: Final = 0.1
_SAY_AGAIN_S: Final = 1.0


class Node:
    """A running query on this machine. Use it as a context manager, or call ``start`` and ``stop``.

    ``relays`` are the links to other nodes that are emulated, or may be hurt; they are closed with the node.
    ``directory`` is what relative paths of tables begin at, if not where the file of the query is.
    ``progress`` is told what the start is doing, several times a second for as long as that takes; what it raises ends
    the start.
    """

    def __init__(
        self,
        query: Query | Diagram,
        state: Path | str,
        settings: NodeSettings | None = None,
        *,
        part: Part | None = None,
        relays: Relays | None = None,
        directory: Path | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.diagram: Final = query.checked() if isinstance(query, Query) else _checked(query)
        self.settings: Final = settings or NodeSettings()
        self._progress = progress
        self._origins = all_origins(self.diagram)
        self.part: Final = part or Part.whole(self.diagram)
        self._stages: Final = self.part.stages
        self._stage_names: Final = frozenset(stage.name for stage in self._stages)
        self._stream_origins = self.part.origins(self.diagram)
        base = query.directory if directory is None and isinstance(query, Query) else directory
        self._tables: Final = load_tables(self.diagram, self._stages, base, self.settings.tables)
        self._directory = StateDirectory(Path(state), self.diagram, self.part, digests(self._tables))
        self._relays = relays
        self._route = direct if relays is None else relays.route
        self._port = self.settings.port
        self._server: FlightServer | None = None
        self._journals: JournalServer | None = None
        self._lost: AnabranchError | None = None
        self._discard = False
        self._closing = threading.Event()
        self._rebuilding: threading.Thread | None = None
        self._started = time.monotonic()
        self._make()

    def _make(self) -> None:
        """All that is made anew when the node has got another state: that of a peer."""
        self._entries: dict[str, EntryPoint] = {}
        self._runners: dict[str, StageRunner] = {}
        self._stopping = threading.Event()
        self._spark: SparkHost | None = None
        if self.part.needs_spark(self.diagram):
            self._spark = SparkHost(
                self.settings,
                self._stopping,
                begin=self._begin,
                has_progressed=self._has_progressed,
                lose=self._lose,
            )
        self._feeding = Feeding(self._stopping)
        self._writing = Writing(self._stopping)
        self._opened = threading.Event()
        self._ready = threading.Event()
        life, part = self._directory.life, self.part
        self._neighbours = Neighbours(self._route)
        self._peers = Peers(part, self._neighbours)
        self._inlets = Inlets(
            part,
            life,
            clock=_now_us,
            neighbours=self._neighbours,
            rebuild=self._needs_rebuild,
            holds=holds(part, self.diagram) if part.technique is Technique.DETERMINISTIC else {},
        )
        is_synchronized = part.technique is Technique.SYNCHRONIZATION
        self._synchronizing = Synchronizing(part.node, part.siblings, self._neighbours) if is_synchronized else None
        self._compared = ComparedOutputs(part, self._neighbours)
        self._agreement = Agreement(part, self._tables, self._neighbours)
        self._streams = Streams(
            self.diagram,
            part,
            self.settings,
            clock=_now_us,
            ready=self._ready,
            synchronizing=self._synchronizing,
        )
        reserve = self.settings.disk_reserve_bytes
        self._snapshots = Snapshots(
            self._directory, part, self._streams.stores, reserve_bytes=reserve, failure=self._why_no_help
        )
        self._housekeeper = Housekeeper()
        self._ticks: dict[str, Due] = {}
        self._housekeeping: threading.Thread | None = None
        self._housekeeping_error: AnabranchError | None = None
        self._trim_all_at = float("-inf")
        self._rebuild_reason: str | None = None
        self._intake_stopped: str | None = None

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every stage has run a batch, or has failed to. Pushes are accepted before that.

        A stage that fails is tried again while the others run; ``failed_stages`` has those that were given up.
        """
        try:
            if self._rebuild().if_empty():
                self._make()
            self._run()
        except BaseException as error:
            if isinstance(error, QueryError) or error is self._agreement.failure:
                # Only Spark, or another node, could tell what is wrong. Nothing has come of it: the directory is free.
                self._discard = self._directory.is_new and self._streams.are_empty()
            self.stop()
            raise

    def _run(self) -> None:
        self._open_stores()
        for source in self.diagram.sources:
            if source.name in self.part.entries:
                self._open_source(source)
        self._feeding.open({name: entry for name, entry in self._entries.items() if name in self.part.feeds})
        self._server = FlightServer(
            self,
            self.settings.host,
            self._port,
            copies=self._streams.copies,
            lanes=self._peers,
            peers=self._snapshots,
            determinants=self._synchronizing,
            outputs=self._compared,
        )
        self._peers.start()
        self._agreement.start()
        self._port = self._server.port
        starting = f"; starting Spark ({self.settings.master})" if self._spark is not None else ""
        serving = f"serving at {self.address}{starting}"
        self._progress(serving)
        self._housekeeping = threading.Thread(target=self._keep_house, name="housekeeper", daemon=True)
        self._housekeeping.start()
        self._start_stages(serving)
        self._ready.set()
        self._feeding.start(self._spark, self._directory.path / "checkpoints")

    def stop(self) -> None:
        """A clean stop: no new batches, the running one is finished or left to the next start, everything closed."""
        self._closing.set()
        if self._relays is not None:
            self._relays.close()  # first: a call over a link that is cut would be waited for
        self._wait_rebuilding_over()
        self._close()
        self._wait_rebuilding_over()  # the housekeeper may just have begun it
        if self._discard:
            self._directory.discard()
        self._directory.close()

    def _close(self) -> None:
        """Ends all that runs; the directory stays ours."""
        self._stopping.set()
        self._ready.set()
        if self._spark is not None:
            self._spark.stop()
        self._feeding.stop()
        self._inlets.stop()
        self._peers.stop()
        if self._synchronizing is not None:
            self._synchronizing.close()
        self._compared.stop()
        self._agreement.stop()
        self._neighbours.close()
        self._housekeeper.stop()
        if self._housekeeping is not None and self._housekeeping is not threading.current_thread():
            self._housekeeping.join(limits.STOP_WAIT_S)
        deadline = time.monotonic() + limits.STOP_WAIT_S
        for runner in self._runners.values():
            runner.stop(deadline)
        self._writing.stop()
        if self._journals is not None:
            self._journals.stop()
        if self._server is not None:
            self._server.stop()
        if self._synchronizing is not None:
            self._synchronizing.join()  # before the logs that it reads are closed
        self._streams.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        if self._server is None:
            raise ConfigError("The node has not been started.", remedy="Call start() first.")
        return self._server.address

    def failure(self) -> AnabranchError | None:
        """Why the node cannot go on: every stage has given up, one found its state broken, or the housekeeper ended."""
        runners = list(self._runners.values())
        broken = [runner.failed for runner in runners if runner.is_broken]
        failed = list(self.failed_stages().values())
        given_up = failed if len(failed) == len(self._stages) else []
        ended = [
            error
            for error in (self._housekeeping_error, self._lost, self._peers.failure(), self._agreement.failure)
            if error is not None
        ]
        return next(iter([*ended, *broken, *self._spark_failure(), *given_up]), None)

    def _spark_has_died(self) -> bool:
        return self._spark is not None and self._spark.has_died()

    def _spark_failure(self) -> list[AnabranchError]:
        """Why the node cannot go on without Spark, if it was given up. One that takes rows in goes on without it: they
        are safe here, and wait in their logs."""
        error = None if self._spark is None else self._spark.failed
        return (
            [error]
            if error is not None and (not self._entries or isinstance(error, StateError | InvariantBroken))
            else []
        )

    def failed_stages(self) -> dict[str, AnabranchError]:
        """The stages that stand still after all their tries, and why. The others go on, and so do all streams."""
        runners = list(self._runners.items())
        return {name: runner.failed for name, runner in runners if runner.failed is not None}

    def _open_stores(self) -> None:
        """All files before anything is written to one: a damaged one is found now, not when Spark has started.

        What the stages wrote in earlier runs can be read from here on, while Spark is still starting.
        """
        for source in sorted(self.part.entries):
            self._streams.open(self._directory.source_file(source))
        for stream in self.part.upstream:
            self._streams.open(self._directory.inlet_file(stream))
        for stage in self._stages:
            self._streams.open(self._directory.stage_file(stage.name))
        self._compared.open(log for _, log in self._streams.logs.values())

    def _open_source(self, source: Source) -> None:
        store = self._streams.stores[self._directory.source_file(source.name)]
        schema = arrow_schema((column.name, column.type or "") for column in source.schema)
        self._streams.create(store, source.name, schema, "source")
        self._streams.create(store, late_stream(source.name), schema, "late")
        open_entry: Callable[..., EntryPoint] = partial(EntryPoint, source, store, self._origins)
        peers = tuple(sorted(self.part.peers.get(source.name, {})))
        if not peers:
            refuse_shared(source, store)
        else:
            sharing = Sharing(
                name=self.part.node,
                peers=peers,
                token=self._directory.life,
                fed=source.feed is not None and source.name in self.part.feeds,
                wake=self._peers.wake,
                look=partial(self._look_within, source.name),
                renew=self._streams.renew,
                kept=self._streams.kept_readers,
                rebuild=self._needs_rebuild,
            )
            open_entry = partial(SharedEntryPoint, source, store, self._origins, sharing)
        entry = self._entries[source.name] = open_entry(
            schema=schema,
            clock=_now_us,
            boundary_interval_us=self.settings.boundary_interval_us,
            intake_stopped=self._why_no_intake,
            stopping=self._stopping.is_set,
        )
        if isinstance(entry, SharedEntryPoint):
            self._peers.add(entry)

    def _start_stages(self, text: str) -> None:
        """What runs in Spark, if anything does, and what only has to wait for it."""
        if self._spark is not None:
            from anabranch.engine import connector

            journals = Journals(self._streams, self._runners, self._origins_of)
            spark = spark_settings(self.settings)
            self._journals = JournalServer(
                journals, spark.driver_host, spark.journals_port, release=connector.release()
            )
            self._spark.start(self._progress, text)
        else:
            self._open_what_waits()

    def _begin(self, session: Any, say: Say) -> None:
        """What runs in Spark, begun in a session that has none of it yet: when the node starts, and whenever Spark was
        started again."""
        if not self._opened.is_set():
            self._open_inlets(session)
        for stage in self._stages:
            say(f"starting stage {stage.name}")
            self._open_stage(session, stage)
        if not self._opened.is_set():
            self._open_what_waits()
        running = {name: runner for name, runner in self._runners.items() if runner.failed is None}
        for runner in running.values():
            runner.start(self._streams.say_punctuations)
        for name, runner in running.items():
            say(f"running the first batch of stage {name}")
            self._wait_first_batch(runner, say)

    def _has_progressed(self) -> bool:
        """Whether every stage that has not failed has run a batch in the Spark of now."""
        runners = self._runners
        return all(name in runners and (runners[name].has_run or runners[name].failed) for name in self._stage_names)

    def _lose(self) -> None:
        for runner in self._runners.values():
            runner.lose()

    def _open_what_waits(self) -> None:
        """Writers and digests know their streams when the stages have said what these are."""
        session = _no_session if self._spark is None else self._spark.session
        self._writing.start(self._written, self._streams.logs, session)  # before a batch has to wait for a full log
        self._compared.open(log for _, log in self._streams.logs.values())
        self._compared.start()
        self._opened.set()  # trimming begins: the first batch may have to wait for it, if its log is full

    def _open_inlets(self, session: Any) -> None:
        """A journal for each stream of other nodes, with the types that Spark gives it, and its copies are read."""
        if not self.part.upstream:
            return
        from anabranch.engine.plan import stream_schemas

        schemas = stream_schemas(session, self.diagram, self.part.all_stages)
        for stream in self.part.upstream:
            if stream not in self._inlets:  # Spark may have died in the middle of a start
                store = self._streams.stores[self._directory.inlet_file(stream)]
                self._streams.create(store, stream, schemas[stream], "internal")
                self._inlets.open(store, self._streams.logs[stream][1])

    def _wait_first_batch(self, runner: StageRunner, say: Say) -> None:
        """The first batch of a stage takes seconds, whatever is in it. It is empty, so that no row waits for it.

        One that fails is left to the housekeeper: the other stages need not wait for it. A cluster without workers is
        no failure: Spark waits for one, and so does the start.
        """
        said = time.monotonic()
        while not runner.has_run and runner.last_error is None:
            time.sleep(0.02)
            runner.watch(self._streams.say_punctuations)
            self._check_goes_on(runner)
            if time.monotonic() - said >= _SAY_AGAIN_S:
                self._say_if_nobody_computes(say)
                said = time.monotonic()
        if runner.failed is not None and runner.is_broken:
            raise runner.failed
        if runner.last_error is not None:
            say(f"will try stage {runner.stage.name} again: {runner.last_error}")

    def _check_goes_on(self, runner: StageRunner) -> None:
        if self._stopping.is_set():
            raise EngineError("The node is stopping.")
        if runner.last_error is None and self._spark is not None and not self._spark.is_alive:
            raise EngineError(f"Spark is gone before the first batch of stage {runner.stage.name} was over.")

    def _say_if_nobody_computes(self, say: Say) -> None:
        if self._executors() == 0:
            say(f"waiting for executors: {self.settings.master} needs workers with free cores and memory")

    def _executors(self) -> int | None:
        """How many a cluster gives us; None if there is no cluster."""
        if self._spark is None or self.settings.master.startswith("local"):
            return None
        from anabranch.engine.session import executors

        try:
            return executors(self._spark.session())
        except EngineError:
            return 0

    def _open_stage(self, session: Any, stage: Stage) -> None:
        from anabranch.engine.connector import JournalHost
        from anabranch.engine.run import StageRun

        assert self._journals is not None
        inputs = {stream: self._streams.logs[stream][1] for stream in stage.inputs}
        run = StageRun(
            session,
            self.diagram,
            stage,
            journals=JournalHost(address=self._journals.address, token=self._journals.token),
            schemas={stream: log.spec.schema for stream, log in inputs.items()},
            checkpoint=self._directory.checkpoint(stage.name),
            max_rows=self.settings.batch_rows,
            tables={name: table.rows for name, table in self._tables.items()},
        )
        if stage.name in self._runners:
            self._runners[stage.name].renew(run)
            return
        store = self._streams.stores[self._directory.stage_file(stage.name)]
        for stream, schema in run.compiled.schemas.items():
            self._streams.create(
                store, stream, schema, "internal" if stream == internal_stream(stage.root) else "output"
            )
        inlets = [self._inlets[stream] for stream in stage.inputs if stream in self._inlets]
        runner = self._runners[stage.name] = StageRunner(
            self.diagram,
            stage,
            run,
            store,
            inputs,
            origins=self._origins_of,
            clock=_now_us,
            stopping=self._stopping.is_set,
            disk_is_low=self._disk_is_low,
            batch_interval_us=self.settings.batch_interval_us,
            inflows=inlets,
            spark_has_died=self._spark_has_died,
            written=self._compared.written,
        )
        for inlet in inlets:
            inlet.read_by(runner)

    # --- being rebuilt ---------------------------------------------------------------------------------------------

    def _rebuild(self) -> Rebuilding:
        return Rebuilding(
            self._directory,
            self.part,
            writers=durable_writers(self._written),
            route=self._route,
            progress=self._progress,
            wait=self._closing.wait,
        )

    @property
    def _written(self) -> tuple[Output, ...]:
        """The outputs whose writers run here."""
        return tuple(output for output in self.diagram.outputs if output.name in self.part.writes)

    def _needs_rebuild(self, reason: str) -> None:
        """This node cannot go on by itself. If there is a node to be rebuilt from, the housekeeper sees to it."""
        if self.part.siblings:
            self._rebuild_reason = self._rebuild_reason or reason
        elif self._lost is None:
            self._lost = StateError(
                f"This node cannot go on by itself. {reason}",
                remedy="No other node does the same part of the query, so that it could be rebuilt: begin anew with "
                "empty state directories on all nodes.",
            )

    def _rebuild_and_go_on(self) -> None:
        """In a thread of its own: everything is closed, gets the state of a peer, and is started again."""
        try:
            self._progress(f"has to be rebuilt: {self._rebuild_reason}")
            self._close()
            if self._rebuild().until_done():
                self._make()
                self._run()
        except Exception as error:  # nobody waits for this thread: whoever watches the node is told
            ours = InvariantBroken(f"The node could not be rebuilt: {error!r}.", remedy="Restart it, and report this.")
            self._lost = error if isinstance(error, AnabranchError) else ours
            self._close()
        finally:
            self._rebuilding = None

    def _wait_rebuilding_over(self) -> None:
        rebuilding = self._rebuilding
        if rebuilding is not None:
            rebuilding.join()

    def _why_no_help(self) -> AnabranchError | None:
        """Why no other node can be rebuilt from this one."""
        if self._rebuild_reason is not None:
            return StateError(f"It has to be rebuilt itself. {self._rebuild_reason}")
        return self.failure()

    # --- housekeeping ----------------------------------------------------------------------------------------------

    def _keep_house(self) -> None:
        for name, entry in self._entries.items():
            self._ticks[name] = self._housekeeper.add(partial(self._tick, entry))
        for chore in (self._watch_stages, self._trim, self._watch_rebuild):
            self._housekeeper.add(chore)
        try:
            self._housekeeper.run()
        except Exception as error:  # a node whose housekeeper is gone looks alive and is not: tell it, and end
            ours = InvariantBroken(f"The node's housekeeper failed: {error!r}.", remedy="Restart it, and report this.")
            self._housekeeping_error = error if isinstance(error, AnabranchError) else ours

    def _tick(self, entry: EntryPoint) -> float:
        try:
            return entry.tick()
        except DiskFull as error:
            self._intake_stopped = str(error)
            return limits.LOOK_S

    def _look_within(self, source: str, seconds: float) -> None:
        """The lanes of a source have to be looked after soon. The housekeeper begins with all of them."""
        tick = self._ticks.get(source)
        if tick is not None:
            tick.within(seconds)

    def _watch_stages(self) -> float:
        if self._spark is None:
            return NEVER
        self._spark.tell_messages()
        if not self._ready.is_set() or not self._spark.is_up:  # until then who starts the stages watches them
            return _WATCH_EVERY_S
        return min((runner.watch(self._streams.say_punctuations) for runner in self._runners.values()), default=WATCH_S)

    def _trim(self) -> float:
        self._watch_disk()
        if self._opened.is_set():
            self._trim_streams()
            self._inlets.watch()
            self._snapshots.expire()
        return limits.TRIM_EVERY_S

    def _watch_rebuild(self) -> float:
        if self._ready.is_set() and self._rebuild_reason is not None:
            self._housekeeper.stop()
            self._rebuilding = threading.Thread(target=self._rebuild_and_go_on, name="rebuilding", daemon=True)
            self._rebuilding.start()
        return limits.TRIM_EVERY_S

    def _trim_streams(self) -> None:
        """A full disk must not end the housekeeper: intake stops, and it tries again."""
        only_large = time.monotonic() < self._trim_all_at
        try:
            self._streams.trim(list(self._runners.values()), only_large=only_large)
        except DiskFull as error:
            self._intake_stopped = str(error)
            return
        if not only_large:
            self._trim_all_at = time.monotonic() + limits.TRIM_ALL_EVERY_S

    def _watch_disk(self) -> None:
        if not self._disk_is_low():
            self._intake_stopped = None
        elif self._intake_stopped is None:
            free, reserve = self._directory.free_bytes() >> 20, self.settings.disk_reserve_bytes >> 20
            where = self._directory.path
            self._intake_stopped = (
                f"Intake has stopped: {free} MiB are free under {where}, {reserve} MiB are in reserve."
            )

    def _why_no_intake(self) -> str | None:
        """Looked up at every push: between two looks of the housekeeper much can be pushed."""
        self._watch_disk()
        return self._intake_stopped

    def _disk_is_low(self) -> bool:
        return self._directory.free_bytes() < self.settings.disk_reserve_bytes

    # --- ports: what the Flight server calls -----------------------------------------------------------------------

    def streams(self) -> list[StreamInfo]:
        return self._streams.infos()

    def stream(self, name: str) -> StreamInfo:
        return self._streams.info(name)

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        log = self._streams.log_for(request)
        return wire_batches(log, request, lambda: cancelled() or self._stopping.is_set())

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        return self._streams.read_pieces(request, lambda: cancelled() or self._stopping.is_set())

    def register(self, source: str, producer: str, session: int | None = None) -> Registration:
        check_name("producer", producer)
        return self._entry(source).register(producer, session)

    def push(self, push: Push) -> PushAnswer:
        return self._entry(push.source).push(push)

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        self._streams.acknowledge(stream, reader, position)

    def forget_reader(self, stream: str, reader: str) -> None:
        self._streams.forget_reader(stream, reader)

    def close_lane(self, source: str, lane: str | None) -> None:
        entry = self._entry(source)
        lanes = entry.source.lanes
        if lane is None and len(lanes) > 1:
            raise ConfigError(f"Source {source!r} has several lanes.", remedy=f"Name one of: {', '.join(lanes)}.")
        entry.close_lane(lanes[0] if lane is None else lane)

    def status(self) -> dict[str, object]:
        return self.statistics()

    def fault_link(self, node: str, fault: LinkFault) -> None:
        if self._relays is None:
            raise faults_refused()
        self._relays.set(node, fault)

    # --- looking in ------------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Everything worth showing: sources with their lanes, stages, links, and streams."""
        return {
            "query": self.diagram.name,
            "address": self.address,
            "state": self._state(),
            "intake": self._intake_stopped or "open",
            "uptime_s": round(time.monotonic() - self._started, 1),
            "executors": self._executors(),
            "spark": None if self._spark is None else self._spark.statistics(),
            "tables": {
                name: {"rows": table.rows.num_rows, "digest": table.digest} for name, table in self._tables.items()
            },
            "sources": {name: entry.statistics() for name, entry in self._entries.items()},
            "feeds": self._feeding.statistics(),
            "stages": {
                name: runner.statistics() | {"waits_for": self._waits_for(runner.stage)}
                for name, runner in list(self._runners.items())
            },
            "peers": self._peers.statistics(),
            "inlets": self._inlets.statistics(),
            "compared": self._compared.statistics(),
            "alarms": self._inlets.alarms() | self._compared.alarms(),
            "determinants": {} if self._synchronizing is None else self._synchronizing.statistics(),
            "links": {} if self._relays is None else self._relays.statistics(),
            "writers": self._writing.statistics(),
            "streams": {name: log.statistics() for name, (_, log) in list(self._streams.logs.items())},
        }

    def _state(self) -> NodeState:
        if self.failure():
            return NodeState.FAILED
        if self._rebuilding is not None:
            return NodeState.REBUILDING
        if self._spark is not None and self._spark.is_restarting:
            return NodeState.RESTARTING_SPARK
        if self._stopping.is_set():
            return NodeState.STOPPING
        return NodeState.RUNNING if self._ready.is_set() else NodeState.STARTING

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until the outputs show all that had been pushed before the call; False if that takes too long."""
        deadline = time.monotonic() + timeout_s
        while self._rebuilding is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        for runner in self._runners.values():  # in the order of flow: what one has logged, the next has to read
            mark = runner.mark()
            runner.hurry(mark)
            while not runner.reached(mark):
                if time.monotonic() > deadline or runner.failed or self.failure() or self._is_without_spark:
                    return False
                time.sleep(0.02)
        return True

    @property
    def _is_without_spark(self) -> bool:
        """For good, until the next start."""
        return self._spark is not None and self._spark.failed is not None

    def _waits_for(self, stage: Stage) -> dict[str, object]:
        """What holds the stage: of all lanes that lead to it, the one that promises least; of those that enter
        elsewhere, what arrives of them here."""
        streams = sources_of(self.diagram, stage.root)
        if not streams <= self._entries.keys():
            streams = frozenset(stage.inputs)
        held = {
            origin: self._streams.logs[stream][1].punctuations().get(origin, 0)
            for stream in streams
            for origin in self._stream_origins[stream]
        }
        slowest = min(held, key=lambda origin: (held[origin], origin))
        return {"origin": slowest, "punctuation_us": held[slowest], "punctuation": format_time(held[slowest])}

    # --- finding things --------------------------------------------------------------------------------------------

    def _origins_of(self, stream: str) -> frozenset[str]:
        """The origins whose tuples a journal can hold."""
        return self._stream_origins[stream]

    def _entry(self, source: str) -> EntryPoint:
        if source not in self._entries:
            raise StreamNotFound(f"There is no source {source!r}.", remedy=f"Sources: {', '.join(self._entries)}.")
        return self._entries[source]


def _checked(diagram: Diagram) -> Diagram:
    problems = validate(diagram)
    if problems:
        raise QueryError(diagram.name, problems)
    return diagram


def _no_session() -> None:
    """What a writer gets that is not Spark's."""


def _now_us() -> int:
    return time.time_ns() // 1000

"""What runs in Spark of one query on one host: its inlets' types and its stages, begun in every session anew.

It is a tenant of the host's Spark (``spark_host``), beside those of other queries. A stage that fails is left to the
housekeeper; it touches neither the other stages nor another query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from anabranch.errors import AnabranchError, EngineError, InvariantBroken
from anabranch.model.names import internal_stream
from anabranch.node.disk_watch import DiskWatch
from anabranch.node.inlets import Inlets
from anabranch.node.settings import NodeSettings
from anabranch.node.spark_host import Say, SparkHost
from anabranch.node.stages import WATCH_S, StageRunner
from anabranch.node.state import QueryDirectory
from anabranch.node.streams import Streams
from anabranch.node.telling import ComparedOutputs
from anabranch.query.assigned import AssignedQuery
from anabranch.query.graph import Stage

if TYPE_CHECKING:
    from anabranch.engine.connector import JournalHost

_SAY_AGAIN_S: Final = 1.0
_LOOK_S: Final = 0.02
_SOON_S: Final = 0.1
"""How soon to look again whether the stages have begun."""


class QueryStages:
    """``opened`` is called once, when the streams of all stages are known."""

    def __init__(
        self,
        part: AssignedQuery,
        directory: QueryDirectory,
        settings: NodeSettings,
        spark: SparkHost,
        journals: Callable[[], JournalHost],
        *,
        streams: Streams,
        inlets: Inlets,
        compared: ComparedOutputs,
        tables: Mapping[str, pa.Table],
        disk: DiskWatch,
        stopping: threading.Event,
        clock: Callable[[], int],
        opened: Callable[[], None],
    ) -> None:
        self.runners: Final[dict[str, StageRunner]] = {}
        self.given_up: AnabranchError | None = None
        """Why the stages could not begin again in a new Spark."""
        self._part = part
        self._directory = directory
        self._settings = settings
        self._spark = spark
        self._journals = journals
        self._streams = streams
        self._inlets = inlets
        self._compared = compared
        self._tables = tables
        self._disk = disk
        self._stopping = stopping
        self._clock = clock
        self._opened = opened
        self._is_open = self._has_begun = False
        self._origins = part.origins()

    # --- as a tenant of Spark --------------------------------------------------------------------------------------

    def begin(self, session: Any, say: Say) -> None:
        if not self._is_open:
            self._open_inlets(session)
        for stage in self._part.stages:
            say(f"starting stage {stage.name}")
            self._open_stage(session, stage)
        if not self._is_open:
            self._opened()
            self._is_open = True
        running = {name: runner for name, runner in self.runners.items() if runner.failed is None}
        for runner in running.values():
            runner.start(self._streams.say_punctuations)
        self._has_begun = True

    def has_progressed(self) -> bool:
        """Whether every stage that has not failed has run a batch in the Spark of now."""
        runners = self.runners
        return all(
            stage.name in runners and (runners[stage.name].has_run or runners[stage.name].failed)
            for stage in self._part.stages
        )

    def lose(self) -> None:
        self._has_begun = False
        for runner in self.runners.values():
            runner.lose()

    def give_up(self, error: BaseException) -> None:
        ours = InvariantBroken(f"The stages could not be restarted: {error!r}.", remedy="Restart the node.")
        self.given_up = error if isinstance(error, AnabranchError) else ours

    # --- while they run --------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether the stages had begun once, and wait for another Spark or another try."""
        return self._is_open and not self._has_begun

    def watch(self) -> float:
        """Starts what has ended by itself; returns the seconds after which to look again."""
        if not self._has_begun or not self._spark.is_alive:  # until then who begins the stages watches them
            return _SOON_S
        return min((runner.watch(self._streams.say_punctuations) for runner in self.runners.values()), default=WATCH_S)

    def stop(self, deadline: float) -> None:
        for runner in self.runners.values():
            runner.stop(deadline)

    def executors(self) -> int | None:
        """How many a cluster gives us; None if there is no cluster."""
        return self._spark.executors()

    # --- beginning -------------------------------------------------------------------------------------------------

    def _open_inlets(self, session: Any) -> None:
        """A journal for each stream of other hosts, with the types that Spark gives it, and its copies are read."""
        if not self._part.upstream:
            return
        from anabranch.engine.plan import stream_schemas

        schemas = stream_schemas(session, self._part.diagram, self._part.all_stages)
        for stream in self._part.upstream:
            if stream not in self._inlets:  # Spark may have died in the middle of a start
                store = self._streams.stores[self._directory.inlet_file(stream)]
                self._streams.create(store, stream, schemas[stream], "internal")
                self._inlets.open(store, self._streams.logs[stream][1])

    def _open_stage(self, session: Any, stage: Stage) -> None:
        from anabranch.engine.run import StageRun

        inputs = {stream: self._streams.logs[stream][1] for stream in stage.inputs}
        run = StageRun(
            session,
            self._part.diagram,
            stage,
            journals=self._journals(),
            schemas={stream: log.spec.schema for stream, log in inputs.items()},
            checkpoint=self._directory.checkpoint(stage.name),
            max_rows=self._settings.batch_rows,
            replica=self._part.replica(stage.name),
            tables=self._tables,
        )
        if stage.name in self.runners:
            self.runners[stage.name].renew(run)
            return
        store = self._streams.stores[self._directory.stage_file(stage.name)]
        for stream, schema in run.compiled.schemas.items():
            kind = "internal" if stream == internal_stream(stage.root) else "output"
            self._streams.create(store, stream, schema, kind)
        inlets = [self._inlets[stream] for stream in stage.inputs if stream in self._inlets]
        runner = self.runners[stage.name] = StageRunner(
            self._part.diagram,
            stage,
            run,
            store,
            inputs,
            origins=self._origins.__getitem__,
            clock=self._clock,
            stopping=self._stopping.is_set,
            disk_is_low=self._disk.is_low,
            batch_interval_us=self._settings.batch_interval_us,
            inflows=inlets,
            load=self._spark.load,
            spark_has_died=self._spark.has_died,
            written=self._compared.written,
            is_compared=not self._part.compared.keys().isdisjoint(target.stream for target in stage.targets),
        )
        for inlet in inlets:
            inlet.read_by(runner)

    # --- the first batches -----------------------------------------------------------------------------------------

    def wait_first_batches(self, say: Say) -> None:
        """Waits as whoever starts the part does, not in the thread that leads Spark: other parts begin meanwhile.

        The first batch of a stage takes seconds, whatever is in it. After a restart it may be one that was made before
        and waits for room in its log. One that fails is left to the housekeeper: the other stages need not wait for
        it. A JVM that dies is followed by another. A cluster without workers is no failure: Spark waits for one, and so
        does the start.
        """
        for name, runner in list(self.runners.items()):
            say(f"running the first batch of stage {name}")
            self._wait_first_batch(runner, say)

    def _wait_first_batch(self, runner: StageRunner, say: Say) -> None:
        said = time.monotonic()
        while not runner.has_run and runner.last_error is None:
            time.sleep(_LOOK_S)
            self._check_goes_on()
            if time.monotonic() - said >= _SAY_AGAIN_S:
                self._say_if_nobody_computes(say)
                said = time.monotonic()
        if runner.failed is not None and runner.is_broken:
            raise runner.failed
        if runner.last_error is not None:
            say(f"will retry stage {runner.stage.name}: {runner.last_error}")

    def _check_goes_on(self) -> None:
        if self._stopping.is_set():
            raise EngineError("The node is stopping.")
        given_up = self.given_up or self._spark.failed
        if given_up is not None:
            raise given_up

    def _say_if_nobody_computes(self, say: Say) -> None:
        if self.executors() == 0:
            say(f"waiting for executors: {self._settings.master} needs workers with free cores and memory")

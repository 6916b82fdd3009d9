"""The SparkSession of a process, with the settings that Anabranch relies on.

Some settings carry a guarantee and cannot be overridden; the others make small batches cheap and can. One process has
one session: nodes that share a process share it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from anabranch import limits
from anabranch.engine import archive, connector, jvm, packs, workers
from anabranch.errors import ConfigError, EngineError

REQUIRED: Final[Mapping[str, str]] = {
    # Stream time is UTC everywhere; Arrow batches carry the zone and must equal Spark's own schema.
    "spark.sql.session.timeZone": "UTC",
    # Of several inputs the slowest rules: the punctuation of a Union or Join is the smallest of its inputs.
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # A pushed-down filter would drop the control rows before the watermark sees them; boxes are placed by the diagram.
    # The second rule is the half of the first that Spark runs once more, and it copies what a Map computes into each
    # place that reads it: with two outputs behind eight Filters and Maps each, planning a batch took 42 seconds.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates,"
        "org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin"
    ),
    # A predicate that Spark infers for the other side of a join meets rows that its author kept away from it, and fails
    # on them: `filter("10 / x > 0").join(other, on="x = y")` would divide by y.
    "spark.sql.constraintPropagation.enabled": "false",
    # A punctuation shows its results in the next batch; this lets Spark run that batch at once, empty.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # Spark would hand the batches of a journal to a Python box as they are, and read them after it has asked for the
    # next one, when they are gone.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.app.name": "anabranch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": f"{limits.POLL_MS}ms",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # Spark writes each batch's plan down for its UI, which nobody sees: in the form that costs least.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # The state of a Join in one store instead of four, in an order in which a watermark frees it without a scan: some
    # 1.7 times the throughput. A checkpoint keeps the version that it was begun with.
    "spark.sql.streaming.join.stateFormatVersion": "4",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A snapshot that a power failure left incomplete is skipped: the changes since the one before are all there.
    "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": "true",
    "spark.sql.streaming.stateStore.autoSnapshotRepair.numFailuresBeforeActivating": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.memory": jvm.DEFAULT_MEMORY,
    "spark.driver.maxResultSize": "1g",
    # Writes checkpoint files without a process per file. Right for file systems that rename in one step; a checkpoint
    # is always in one, because it lies in the state directory.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

JAVA_OPTIONS: Final = "-XX:+UseParallelGC -Xss16m -Djdk.lang.Process.launchMechanism=VFORK"

JOURNALS_PORT: Final = "spark.anabranch.journals.port"
"""Named and given as Spark's own ports are."""

_LARGEST_PORT: Final = 65_535
_LOOPBACK: Final = re.compile(r"127\.[0-9.]+|localhost|::1|\[::1\]")
_SCRATCH: Final = "anabranch-spark-"
_SOCKET_DIRECTORY_BYTES: Final = 60
"""What Spark accepts as the directory of its sockets. It is less than what the system allows."""
_MESSAGES: Final = "messages"
_opening: Final = threading.Lock()
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Which Spark to use: a master and any of Spark's own settings. ``host`` is where executors find this process."""

    master: str = "local[*]"
    host: str = "127.0.0.1"
    conf: Mapping[str, str] = field(default_factory=dict)

    def effective(self) -> dict[str, str]:
        """All settings as Spark gets them; an attempt to change a required one is an error, not a surprise."""
        for key, value in REQUIRED.items():
            if self.conf.get(key, value) != value:
                raise ConfigError(
                    f"Spark setting {key} must stay {value}: exact punctuation depends on it.",
                    remedy="Leave it out.",
                )
        merged = {**DEFAULTS, **REQUIRED, "spark.driver.extraJavaOptions": JAVA_OPTIONS}
        host = self.driver_host
        if self.is_cluster:
            self._check_host()
            merged["spark.executor.extraJavaOptions"] = JAVA_OPTIONS
        return {**merged, "spark.driver.host": host, "spark.driver.bindAddress": host, **self.conf}

    @property
    def is_cluster(self) -> bool:
        """Whether the executors are other processes, perhaps on other machines."""
        return not self.master.startswith("local")

    @property
    def driver_host(self) -> str:
        """Where driver and journals listen: what is not for other machines stays on loopback."""
        return self.host if self.is_cluster else "127.0.0.1"

    @property
    def journals_port(self) -> int:
        """Where executors read journals; 0 is any free port."""
        asked = self.conf.get(JOURNALS_PORT, "0")
        if not asked.isdecimal() or int(asked) > _LARGEST_PORT:
            raise ConfigError(f"{JOURNALS_PORT} is {asked!r}.", remedy="Give a port from 1 to 65535, or leave it out.")
        return int(asked)

    def _check_host(self) -> None:
        """Executors read the journals from this address: it must mean this machine there too."""
        at_hand = _LOOPBACK.fullmatch(self.master.removeprefix("spark://").rpartition(":")[0]) is not None
        if self.host in ("", "0.0.0.0", "::") or (_LOOPBACK.fullmatch(self.host) and not at_hand):
            raise ConfigError(
                f"The executors of {self.master} cannot reach a node that listens at {self.host!r}.",
                remedy="Give --host the address of this machine in their network.",
            )


def open_session(settings: SparkSettings, given_up: Callable[[], bool] = lambda: False) -> SparkSession:
    """The process's session, started if there is none, or if its JVM has died.

    Several nodes may ask at the same time: they get the same. ``given_up`` ends a start that nobody wants any more.
    """
    with _opening:
        if jvm.is_gone():
            jvm.forget()
            _clear_scratch()
        return _open(settings, given_up)


def _open(settings: SparkSettings, given_up: Callable[[], bool]) -> SparkSession:
    scratch = _scratch()
    options = {
        **settings.effective(),
        "spark.master": settings.master,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "tables"),
    }
    # Not extraClassPath, which stands before Spark's jars: the class archive would no longer fit.
    options["spark.jars"] = ",".join(filter(None, [str(connector.JAR), options.get("spark.jars")]))
    if not settings.is_cluster:  # executors elsewhere have other directories, and take their own for temporary files
        options |= worker_sockets(scratch)
    asked = options.get("spark.driver.extraJavaOptions", "")
    ours = f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile=file:{_LOG_SETTINGS}"
    shared = "" if "Archive" in asked else archive.using()
    options["spark.driver.extraJavaOptions"] = f"{asked} {ours} {shared}"
    builder = SparkSession.builder
    if not settings.is_cluster:  # not among the options that start the JVM: its classes are not there yet
        builder = builder.config("spark.hadoop.fs.file.impl", connector.LOCAL_FILES)
    for key, value in options.items():
        builder = builder.config(key, value)
    try:
        with _own_interrupt_handler(), workers.chosen(scratch, elsewhere=settings.is_cluster):
            jvm.start(options.items(), scratch / _MESSAGES, given_up)
            session = builder.getOrCreate()
    except Exception as error:  # py4j and pyspark raise many kinds here; all mean the same to the caller
        raise EngineError(
            " ".join([f"Spark did not start with master {settings.master}: {error}", *jvm.new_messages()]),
            remedy="Check that Java 17 or 21 is installed (java -version) and that the master can be reached.",
        ) from error
    _share_environment_safely(session)
    _let_accumulators_end(session)
    _send_settings_cheaply(session)
    _keep_nothing_for_a_ui(session)
    packs.install(session)
    return session


def _share_environment_safely(session: SparkSession) -> None:
    """Let the threads of several queries write to the environment of Python workers at once.

    Spark gives every Python function the same map, and each query with a window of tuples puts its settings into it,
    on its own thread. In the ordinary HashMap two first writes at once can leave a wrong count, after which no task
    that carries the map can be read by an executor (java.io.OptionalDataException), until the process ends.
    """
    context = session.sparkContext
    if isinstance(context.environment, dict):
        shared = context._jvm.java.util.concurrent.ConcurrentHashMap()  # type: ignore[union-attr]
        for name, value in context.environment.items():
            shared.put(name, value)
        context.environment = shared


def _send_settings_cheaply(session: SparkSession) -> None:
    """Hadoop's settings travel with every batch that has state: ``jvm/anabranch/HadoopSettings.java``."""
    context = session.sparkContext
    context._jvm.anabranch.HadoopSettings.forgetOrigins(context._jsc.hadoopConfiguration())  # type: ignore[union-attr]


def _keep_nothing_for_a_ui(session: SparkSession) -> None:
    """Unless it has one: ``jvm/anabranch/StatusListeners.java``."""
    session.sparkContext._jvm.anabranch.StatusListeners.removeWithoutUi(session._jsparkSession)  # type: ignore[union-attr]


def _let_accumulators_end(session: SparkSession) -> None:
    """PySpark listens for sums that tasks make, of which we have none. When a JVM dies the connection ends in the
    middle of a message, which would be told in a page on standard error."""
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]


def executors(session: SparkSession) -> int:
    """How many executors there are now, besides this process; none if Spark has ended."""
    context = session.sparkContext._jsc
    if context is None:
        return 0
    with suppress(Py4JError, OSError):
        return int(context.sc().getExecutorMemoryStatus().size()) - 1
    return 0


def worker_sockets(scratch: Path) -> dict[str, str]:
    """How Spark talks to its Python workers: by sockets in our directory, or by ports if its path is too long."""
    if len(os.fsencode(scratch)) > _SOCKET_DIRECTORY_BYTES:
        return {"spark.python.unix.domain.socket.enabled": "false"}
    return {"spark.python.unix.domain.socket.dir": str(scratch)}


def close_session(wait_s: float = limits.STOP_WAIT_S) -> None:
    """Ends the process's session and its JVM, if there is one: all nodes of the process must have stopped."""
    session = SparkSession._instantiatedSession  # getActiveSession knows only the session of this thread
    if session is not None and not jvm.is_gone():
        # A JVM that was told to stop before us may be gone in the middle of this, of which PySpark would warn.
        with suppress(Py4JError, OSError), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            session.stop()
    jvm.end(wait_s)
    shutil.rmtree(_scratch(), ignore_errors=True)


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Spark takes Ctrl-C for itself, to cancel its jobs. Ours end with the node: the program keeps its own handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _scratch() -> Path:
    """This process's directory for Spark's temporary files; what killed processes left behind is removed."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{_SCRATCH}*"):
        pid = left.name.removeprefix(_SCRATCH)
        if pid.isdigit() and not Path("/proc", pid).exists() and Path("/proc").exists():
            shutil.rmtree(left, ignore_errors=True)
    mine = parent / f"{_SCRATCH}{os.getpid()}"
    mine.mkdir(exist_ok=True)
    return mine


def _clear_scratch() -> None:
    """What a JVM that died left there, except for its last words."""
    for left in _scratch().iterdir():
        if left.name != _MESSAGES:
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)

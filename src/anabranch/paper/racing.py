"""Runs the experiments of section 5 of the racing paper: real node processes, emulated ways, a client at OSU.

Each run starts all nodes anew, waits until results come and Spark is warm, and measures from then on. For figure 9 the
node at WISC is killed in the middle of that time and stays dead, as in the paper.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anabranch import limits
from anabranch.deploy.supervisor import Supervisor
from anabranch.errors import OperatorError
from anabranch.paper import wide_area
from anabranch.paper.curves import Arrivals
from anabranch.paper.measuring import MicroBatches, Reader
from anabranch.paper.wide_area import JOIN, JOINED, KILLED, LOADS, NODES, PINGS, UNITED, Protection

LOOK_S: Final = 0.2
STOP_S: Final = 15.0
"""How long nodes may take to stop. Their state is thrown away, so one that takes longer is killed."""

FIRST_S: Final = 120.0
"""How long the first result may take when all nodes run. While Spark starts, rows pile up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long each part of a run takes."""

    warm_s: float
    inputs_s: float
    """Figure 8."""
    kill_s: float
    """Figure 9: when WISC is killed."""
    end_s: float


FULL: Final = Lengths(warm_s=20, inputs_s=100, kill_s=60, end_s=120)
QUICK: Final = Lengths(warm_s=8, inputs_s=25, kill_s=20, end_s=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was measured: for figure 8 per curve, for figure 9 per technique."""

    lengths: Lengths
    inputs: Mapping[str, Arrivals]
    techniques: Mapping[Protection, Arrivals]
    batch_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """How long a micro-batch took, per run, and per node and stage, while all nodes lived: what explains the rest."""


UNION_OUT, JOIN_OUT, INPUT_1, INPUT_2 = "Union", "Join", "input 1", "input 2"
CURVES: Final = {UNION_OUT: UNITED, JOIN_OUT: JOINED, INPUT_1: LOADS, INPUT_2: PINGS}
"""The curves of figure 8, and the streams at OSU that they are of."""


FIGURE_8: Final = "figure 8"


def figure_9(technique: Protection) -> str:
    """What the run is called."""
    return f"figure 9, {technique}"


class RacingExperiment:
    """Both figures, one run after the other. ``progress`` is told what happens; ``check`` may end it by raising."""

    def __init__(self, lengths: Lengths, progress: Callable[[str], None], check: Callable[[], None]) -> None:
        self._lengths = lengths
        self._progress = progress
        self._check = check
        self._batch_ms: dict[str, Mapping[str, float]] = {}

    def run(self, techniques: Sequence[Protection] = tuple(Protection)) -> Found:
        inputs = self.sensitivity()
        compared = {technique: self.comparison(technique) for technique in techniques}
        return Found(lengths=self._lengths, inputs=inputs, techniques=compared, batch_ms=self._batch_ms)

    def sensitivity(self) -> dict[str, Arrivals]:
        """Figure 8: Union and Join at OSU, both of which read the unions' outputs, without replication."""
        with self._running(Protection.NO_REPLICATION, FIGURE_8, with_union=True) as run:
            return run.measure(CURVES, self._lengths.inputs_s)

    def comparison(self, technique: Protection) -> Arrivals:
        """Figure 9: what comes out of the Join when WISC dies."""
        with self._running(technique, figure_9(technique)) as run:
            return run.measure({JOIN_OUT: JOINED}, self._lengths.end_s, kill_s=self._lengths.kill_s)[JOIN_OUT]

    @contextmanager
    def _running(self, technique: Protection, what: str, *, with_union: bool = False) -> Iterator[_Run]:
        with tempfile.TemporaryDirectory(prefix="anabranch-paper-", ignore_cleanup_errors=True) as name:
            file = wide_area.write(Path(name), technique, with_union=with_union)
            supervisor = Supervisor(file, state=Path(name, "state"))
            try:
                run = _Run(supervisor, what, self._lengths, self._progress, self._check)
                yield run
                self._batch_ms[what] = run.batch_ms
            finally:
                try:
                    self._progress(f"{what}: stopping the nodes")  # may raise again what ended it
                finally:
                    supervisor.stop(STOP_S)


class _Run:
    """One deployment from its start to its end."""

    def __init__(
        self,
        supervisor: Supervisor,
        what: str,
        lengths: Lengths,
        progress: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._supervisor = supervisor
        self._what = what
        self._lengths = lengths
        self._progress = progress
        self._check = check
        self._expected = set(NODES)
        self.batch_ms: Mapping[str, float] = {}
        progress(f"{what}: starting {len(NODES)} nodes")
        supervisor.start()
        self._wait(limits.NODE_START_WAIT_S, lambda: set(self._states().values()) == {"running"}, "run")

    def measure(self, streams: Mapping[str, str], end_s: float, *, kill_s: float | None = None) -> dict[str, Arrivals]:
        """What came of these streams at OSU in so many seconds."""
        address = str(self._supervisor.plan.nodes[JOIN].address)
        with ExitStack() as stack:
            readers = {name: stack.enter_context(Reader(address, stream)) for name, stream in streams.items()}
            self._warm_up(list(readers.values()))
            began, batches = time.time(), MicroBatches(self._computing())
            self._progress(f"{self._what}: measuring for {end_s:.0f} s")
            if kill_s is not None:
                self._sleep(began + kill_s, list(readers.values()))
                self.batch_ms = batches.lengths_ms()
                self._progress(f"{self._what}: {KILLED} is killed")
                self._expected.discard(KILLED)
                self._supervisor.kill(KILLED)
            self._sleep(began + end_s, list(readers.values()))
            self.batch_ms = self.batch_ms or batches.lengths_ms()
            return {name: reader.arrivals(began).between(0, end_s) for name, reader in readers.items()}

    def _computing(self) -> dict[str, str]:
        """The nodes with Spark, and their addresses."""
        nodes = self._supervisor.plan.nodes
        return {name: str(node.address) for name, node in nodes.items() if node.needs_spark}

    def _warm_up(self, readers: Sequence[Reader]) -> None:
        self._progress(f"{self._what}: waiting for the first results")
        self._wait(FIRST_S, lambda: all(reader.rows for reader in readers), "give results")
        self._progress(f"{self._what}: warming up for {self._lengths.warm_s:.0f} s")
        self._sleep(time.time() + self._lengths.warm_s, readers)

    def _sleep(self, until_s: float, readers: Sequence[Reader]) -> None:
        while time.time() < until_s:
            self._look()
            for reader in readers:
                if reader.error is not None:
                    raise reader.error
            time.sleep(max(0.0, min(LOOK_S, until_s - time.time())))

    def _wait(self, timeout_s: float, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_done():
            self._look()
            if time.monotonic() > deadline:
                raise OperatorError(f"After {timeout_s:.0f} s the nodes still do not {what}: {self._states()}.")
            time.sleep(LOOK_S)

    def _look(self) -> None:
        """The nodes are as they should be, and nobody wants to stop."""
        self._check()
        self._supervisor.look()
        for name in self._expected:
            child = self._supervisor.child(name)
            if child.starts and not child.is_alive:
                told = "\n  ".join(child.last_lines())
                raise OperatorError(f"Node {name} exited. Its last lines:\n  {told}")

    def _states(self) -> dict[str, str]:
        return {name: str(facts["state"]) for name, facts in self._supervisor.statistics().items()}

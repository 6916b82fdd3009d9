"""A node as a process of its own, and ways to end it that no program can prepare for.

The node runs as users run it (``anabranch run``), in a session of its own, so that everything it starts (the JVM,
Spark's Python workers) is found by session id, also when its parent is already dead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

import anabranch as ab
from anabranch.engine.session import JAVA_OPTIONS
from anabranch.runtime.status import HostStatus
from anabranch.transport.client import Client
from tests.waiting import HANG_S, pause_s

ROOT = Path(__file__).parents[2]

LIFE = "20m"
"""A node ends by itself after this time, should the harness die without a chance to clean up."""

POLL_S = (0.1, 0.5)
"""Between two questions, at first and when it takes long: each costs the node a moment too."""

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:-UseParallelGC -XX:+UseSerialGC"
"""Without its optimising compiler the JVM is up sooner, which is what counts in a life of seconds; and a heap that is
small needs one thread to clean it."""


def java_options(more: str = QUICK_START) -> str:
    return f"{JAVA_OPTIONS} {more} -Dlog4j2.configurationFile=file:{_LOG_SETTINGS}"


class HarnessError(Exception):
    """The run could not be carried through: a node did not come up, a failpoint was not reached."""


class NodeProcess:
    """One start of a node on a state directory; ``kill`` leaves nothing of it."""

    def __init__(
        self,
        query: Path,
        state: Path,
        port: int,
        log: Path,
        *,
        failpoint: str | None = None,
        options: Sequence[str] = (),
        compiler: str = QUICK_START,
    ) -> None:
        self.address = f"127.0.0.1:{port}"
        self.log = log
        environment = {key: value for key, value in os.environ.items() if key != "ANABRANCH_FAILPOINT"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        if failpoint is not None:
            environment["ANABRANCH_FAILPOINT"] = failpoint
        command = [sys.executable, "-m", "anabranch.cli", "run", str(query), "--state", str(state), "--port", str(port)]
        command += ["--conf", f"spark.driver.extraJavaOptions={java_options(compiler)}"]
        command += ["--master", "local[2]", "--for", LIFE, *options]
        self.started = time.monotonic()
        with log.open("ab") as output:
            output.write(f"\n--- {' '.join(command[1:])} failpoint={failpoint}\n".encode())
            output.flush()
            self._popen = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        self.pid = self._popen.pid

    def kill(self) -> int:
        """SIGKILL for the node and all it has started, until none is left; how many processes there were."""
        return kill_session(self._popen)

    def jvm(self) -> psutil.Process | None:
        """Once it is one: before that it is a shell."""
        children = psutil.Process(self.pid).children()
        return next((child for child in children if child.name() == "java"), None)

    def kill_jvm(self) -> None:
        """As the kernel does when memory runs out: nothing but the JVM."""
        jvm = self.jvm()
        assert jvm is not None, self.log_tail()
        jvm.kill()

    def tree(self) -> list[psutil.Process]:
        """The node, its children and theirs, dead parents or not."""
        return session_tree(self.pid)

    def rss(self) -> dict[str, int]:
        """Resident bytes of the node itself, of its JVM, and of Spark's Python processes."""
        found = {"node": 0, "jvm": 0, "workers": 0}
        for process in self.tree():
            try:
                kind = "node" if process.pid == self.pid else "jvm" if process.name() == "java" else "workers"
                found[kind] += process.memory_info().rss
            except psutil.Error:
                continue
        return found

    def stopped(self) -> bool:
        """Whether the node has stopped itself at its failpoint."""
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def status(self) -> HostStatus | None:
        """What ``anabranch status`` says, or None while nobody answers."""
        with Client(self.address) as client:
            try:
                return client.status()
            except ab.NodeUnreachable:
                return None

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait_serving(self) -> float:
        """Until it takes pushes; seconds since its start."""
        self.wait(lambda: self.status() is not None, "answers")
        return time.monotonic() - self.started

    def wait_running(self) -> float:
        """Until every stage runs; seconds since its start."""
        self.wait(lambda: _runs(self.status()), "runs all stages")
        return time.monotonic() - self.started

    def wait_stopped(self) -> None:
        self.wait(self.stopped, "reaches its failpoint")

    def wait_caught_up(self) -> None:
        """Until all lanes are closed and every stage has logged all that its journals hold."""
        self.wait(lambda: caught_up(self.status()), "catches up")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        began = time.monotonic()
        while not condition():
            code = self._popen.poll()
            if code is not None:
                raise HarnessError(f"the node ended with {code} before it {what}; its log ends:\n{self.log_tail()}")
            waited_s = time.monotonic() - began
            if waited_s > HANG_S:
                raise HarnessError(
                    f"after {HANG_S:.0f} s the node has not come so far that it {what}; status: {self.status()}; "
                    f"its log ends:\n{self.log_tail()}"
                )
            time.sleep(pause_s(waited_s, POLL_S))

    def log_tail(self, size: int = 8_000) -> str:
        return self.log.read_bytes()[-size:].decode(errors="replace")


def _runs(status: HostStatus | None) -> bool:
    return status is not None and status.state == "running"


def caught_up(status: HostStatus | None) -> bool:
    if status is None or status.state != "running":
        return False
    query = status.only_query
    closed = all(lane.closed for source in query.sources.values() for lane in source.lanes.values())
    return closed and all(stage.caught_up for stage in query.stages.values())


def all_written(status: HostStatus | None) -> bool:
    if not caught_up(status) or status is None:
        return False
    query = status.only_query
    ends = {name: stream.last_id for name, stream in query.streams.items()}
    return all(writer.position == ends[name] for name, all_ in query.writers.items() for writer in all_.values())


def kill_session(leader: subprocess.Popen[bytes]) -> int:
    """SIGKILL for a process that began a session and for all in it, until none is left; how many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + HANG_S
    while found := session_tree(leader.pid):
        for process in found:
            killed.add(process.pid)
            _kill(process)
        psutil.wait_procs(found, timeout=1)
        leader.poll()
        if time.monotonic() > deadline:
            raise HarnessError(f"processes survived SIGKILL: {found}")
    leader.wait(HANG_S)
    return len(killed)


def session_tree(session: int) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _session(process.pid) == session and alive(process)]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()

"""When Spark is started again and when it is given up, with processes that are no JVM: they only live and die."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch import limits
from anabranch.engine import jvm
from anabranch.errors import ConfigError, EngineError, StateError
from anabranch.node.settings import NodeSettings
from anabranch.node.spark_host import Say, SparkHost
from anabranch.runtime.status import SparkStatus
from tests.waiting import HANG_S, wait_for

SLEEPING = "import time; time.sleep(600)"


class Bench:
    """A host whose lives of Spark go as told: ``starts`` are called in turn, the last one again and again."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.starts: list[Callable[[], None]] = [self.come_up]
        self.begun = 0
        self.lost = 0
        self.progresses = True
        self.stopping = threading.Event()
        self.given_up: list[BaseException] = []
        self.host = SparkHost(NodeSettings(), self.stopping)

    def open(self, *_: Any) -> object:
        (self.starts.pop(0) if len(self.starts) > 1 else self.starts[0])()
        return object()

    def come_up(self, program: str = SLEEPING) -> None:
        self.processes.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))

    def die(self) -> None:
        """Killed while it starts."""
        self.come_up()
        self.kill()
        raise EngineError("Spark did not start.")

    def kill(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].wait()

    def process(self) -> subprocess.Popen[bytes] | None:
        return self.processes[-1] if self.processes else None

    def start(self) -> None:
        self.host.run(self, self.stopping)

    def stop(self) -> None:
        self.stopping.set()
        self.host.stop()

    def begin(self, session: Any, say: Say) -> None:
        say("beginning")
        self.begun += 1

    def has_progressed(self) -> bool:
        return self.progresses

    def lose(self) -> None:
        self.lost += 1

    def give_up(self, error: BaseException) -> None:
        self.given_up.append(error)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench()
    monkeypatch.setattr("anabranch.engine.session.open_session", made.open)
    monkeypatch.setattr(jvm, "process", made.process)
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.01, 0.02, 0.03))
    yield made
    made.stop()
    for process in made.processes:
        process.kill()
        process.communicate()


def test_a_jvm_that_dies_is_followed_by_another(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.start()
    first = bench.host.session()
    bench.kill()
    wait_for(lambda: bench.begun == 2 and bench.host.is_up)
    assert bench.host.session() is not first
    assert bench.lost == 1
    assert bench.host.statistics() == SparkStatus(state="running", starts=2, error=None)
    assert caplog.records[0].message.startswith("Spark's JVM was killed by SIGKILL, perhaps")


def test_while_there_is_none_there_is_no_session_and_the_host_says_why(bench: Bench) -> None:
    held = threading.Event()
    bench.starts = [bench.come_up, lambda: (held.wait(), bench.come_up())[1]]  # type: ignore[func-returns-value]
    bench.start()
    bench.kill()
    wait_for(lambda: bench.host.is_restarting)
    with pytest.raises(EngineError, match="it is restarting"):
        bench.host.session()
    wait_for(lambda: "SIGKILL" in str(bench.host.statistics().error))
    assert bench.host.has_died()
    held.set()
    wait_for(lambda: bench.host.is_up)


def test_without_progress_it_is_given_up_and_says_so(bench: Bench) -> None:
    bench.start()
    bench.progresses, bench.starts = False, [bench.die]
    bench.kill()
    wait_for(lambda: bench.host.failed)
    tries = len(limits.RESTART_BACKOFF_S) + 1
    assert len(bench.processes) == tries
    assert f"started {tries} times without progress and has been given up" in str(bench.host.failed)
    assert bench.host.statistics().state == "failed"


def test_progress_makes_earlier_deaths_forgotten(bench: Bench) -> None:
    bench.start()
    for life in range(2, 3 * len(limits.RESTART_BACKOFF_S)):
        bench.kill()
        wait_for(lambda: bench.begun == life and bench.host.is_up)  # noqa: B023
    assert bench.host.failed is None


def test_one_that_is_killed_in_the_first_start_is_started_again(bench: Bench) -> None:
    bench.progresses, bench.starts = False, [bench.die, bench.die, bench.come_up]
    bench.start()
    assert bench.host.is_up
    assert bench.host.statistics().starts == 3


def test_what_the_first_start_refuses_is_told_at_once(bench: Bench) -> None:
    def refuse() -> None:
        raise ConfigError("no such master")

    bench.starts = [refuse]
    with pytest.raises(ConfigError, match="no such master"):
        bench.start()
    assert bench.host.statistics().starts == 1


def test_a_jvm_that_ends_by_itself_in_the_first_start_is_a_refusal(bench: Bench) -> None:
    """It was given options that it does not know: another try would not know them either."""

    def end() -> None:
        bench.come_up("raise SystemExit(1)")
        bench.processes[-1].wait()
        raise EngineError("Spark did not start.")

    bench.starts = [end]
    with pytest.raises(EngineError, match="did not start"):
        bench.start()


def test_broken_state_ends_it_at_once(bench: Bench) -> None:
    bench.start()

    def broken() -> None:
        bench.come_up()
        raise StateError("log and checkpoint disagree")

    bench.starts = [broken]
    bench.kill()
    wait_for(lambda: bench.host.failed)
    assert isinstance(bench.host.failed, StateError)


def test_who_starts_it_can_change_their_mind_while_it_starts(bench: Bench) -> None:
    held = threading.Event()
    bench.starts = [lambda: (held.wait(), None)[1]]  # type: ignore[func-returns-value]
    unwanted = threading.Event()
    unwanted.set()
    with pytest.raises(EngineError, match="is stopping"):
        bench.host.run(bench, unwanted)
    held.set()


class Other:
    """Another query in the same Spark, which cannot begin as often as told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begun = self.lost = 0
        self.given_up: list[BaseException] = []

    def begin(self, session: Any, say: Say) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.begun += 1

    def has_progressed(self) -> bool:
        return True

    def lose(self) -> None:
        self.lost += 1

    def give_up(self, error: BaseException) -> None:
        self.given_up.append(error)


def test_another_query_begins_in_the_session_that_is_there(bench: Bench) -> None:
    bench.start()
    other = Other()
    bench.host.run(other, threading.Event())
    assert (bench.begun, other.begun, bench.host.statistics().starts) == (1, 1, 1)
    bench.kill()
    wait_for(lambda: (bench.begun, other.begun) == (2, 2) and bench.host.is_up)
    assert (bench.lost, other.lost) == (1, 1)


def test_what_one_query_cannot_begin_with_is_told_to_it_alone(bench: Bench) -> None:
    bench.start()
    with pytest.raises(ConfigError, match="no such column"):
        bench.host.run(Other(ConfigError("no such column")), threading.Event())
    assert bench.host.is_up
    bench.kill()
    wait_for(lambda: bench.begun == 2 and bench.host.is_up)
    assert bench.host.failed is None


def test_a_query_that_had_begun_is_tried_again_and_then_given_up_while_others_run(bench: Bench) -> None:
    bench.start()
    lucky, unlucky = Other(), Other()
    for each in (lucky, unlucky):
        bench.host.run(each, threading.Event())
    tries = len(limits.RESTART_BACKOFF_S) + 1
    lucky.errors = [EngineError("no answer")]
    unlucky.errors = [EngineError("no answer")] * tries
    bench.kill()
    wait_for(lambda: bool(unlucky.given_up))
    wait_for(lambda: (bench.begun, lucky.begun, bench.host.is_up) == (2, 2, True))
    assert unlucky.errors == lucky.given_up == []


def test_a_query_that_waits_for_its_next_try_holds_up_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.start()
    unlucky = Other()
    bench.host.run(unlucky, threading.Event())
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.01, HANG_S))
    unlucky.errors = [EngineError("no answer")] * 3
    bench.kill()
    wait_for(lambda: len(unlucky.errors) == 1)
    other = Other()
    bench.host.run(other, threading.Event())
    assert (bench.begun, other.begun, bench.host.is_up) == (2, 1, True)


def test_a_jvm_that_ends_by_itself_before_a_batch_is_not_followed_by_another(bench: Bench) -> None:
    bench.progresses, bench.starts = False, [lambda: bench.come_up("input(); raise SystemExit(1)")]
    bench.start()
    bench.processes[-1].communicate(b"end")
    wait_for(lambda: bench.host.failed)
    assert len(bench.processes) == 1
    assert "exited with code 1" in str(bench.host.failed)


def test_a_query_that_has_left_is_not_begun_again(bench: Bench) -> None:
    bench.start()
    other = Other()
    bench.host.run(other, threading.Event())
    bench.host.leave(other)
    bench.kill()
    wait_for(lambda: bench.begun == 2 and bench.host.is_up)
    assert (other.begun, other.lost) == (1, 0)


def test_a_stop_ends_the_watch_and_leaves_the_process(bench: Bench) -> None:
    bench.start()
    bench.stop()
    assert not bench.host._thread.is_alive()
    assert bench.processes[-1].poll() is None


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL, perhaps because this machine ran out of memory"),
        ("raise SystemExit(52)", "because its heap was full. Raise spark.driver.memory, which is 3g"),
        ("raise SystemExit(7)", "exited with code 7."),
        ("raise SystemExit(143)", "killed by SIGTERM."),
    ],
)
def test_how_a_jvm_ended_is_said_in_words(program: str, told: str) -> None:
    ended = subprocess.Popen([sys.executable, "-c", program])
    ended.wait()
    assert told in str(jvm.death(ended, {"spark.driver.memory": "3g"}))

"""The Spark of a node: started, watched, and started again when its JVM dies.

A JVM can end at any moment without a word: the kernel kills the largest process when memory runs out. Then there is
nothing wrong with the node. Its logs, entry points, inlets and readers need no Spark; what Spark was at is in the
checkpoints, as after a crash of the whole node. So another JVM is started, after a wait, and the stages begin in it
where they were.

One thread leads every life of Spark, from the start of a JVM over the first batches to its end, the first life
included: so there is one way to start, and whoever starts the node can be told to stop while Spark starts. When a JVM
dies before every stage has run a batch, that life was for nothing; after several of them in a row Spark is given up.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from anabranch import limits
from anabranch.core.backoff import Backoff
from anabranch.errors import AnabranchError, EngineError, InvariantBroken, StateError
from anabranch.node.settings import NodeSettings

if TYPE_CHECKING:
    from subprocess import Popen

    from anabranch.engine.session import SparkSettings

_log: Final = logging.getLogger("anabranch.spark")

LOOK_S: Final = 0.05
"""How often who waits for the first start looks whether it is still wanted."""

Say = Callable[[str], None]
"""Tells what a start is at; raises if nobody wants it any more."""


class SparkHost:
    """``begin`` starts everything that runs in Spark in a new session; ``has_progressed`` says whether all of it has
    come further there; ``lose`` is called when that session is gone: nothing that still comes from it counts."""

    def __init__(
        self,
        settings: NodeSettings,
        stopping: threading.Event,
        *,
        begin: Callable[[Any, Say], None],
        has_progressed: Callable[[], bool],
        lose: Callable[[], None],
    ) -> None:
        self.failed: AnabranchError | None = None
        """Why it was given up, if it was."""
        self._settings = settings
        self._begin = begin
        self._has_progressed = has_progressed
        self._lose = lose
        self._session: Any = None
        self._process: Popen[bytes] | None = None
        self._is_up = False
        self._starts = 0
        self._error: AnabranchError | None = None
        self._said: deque[str] = deque()
        self._settled = threading.Event()
        self._refused: BaseException | None = None
        self._stopping = stopping
        self._woken = self._wake = -1
        self._thread = threading.Thread(target=self._live, name="spark", daemon=True)

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self, progress: Callable[[str], None], text: str) -> None:
        """Returns when everything has begun. ``progress`` is told about it by this thread alone; ``text`` is what it
        was told last. What it raises ends the start, and so does what the first session refuses."""
        self._woken, self._wake = os.pipe()
        self._thread.start()
        while not self._settled.wait(LOOK_S) or self._said:
            while self._said:
                text = self._said.popleft()
                progress(text)
            progress(text)
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """No more starts: ``stopping`` is set. The session stays: other nodes of this process may use it."""
        self._is_up = False
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1
        if self._thread.is_alive():
            self._thread.join(limits.STOP_WAIT_S)

    @property
    def is_up(self) -> bool:
        """Whether everything has begun in a Spark that is there."""
        return self._is_up and not self._is_dead()

    @property
    def is_restarting(self) -> bool:
        return self._settled.is_set() and not self._is_up and self.failed is None and not self._stopping.is_set()

    def has_died(self) -> bool:
        """Whether the JVM is gone, or just going: asked when a call into it has failed."""
        process = self._process
        if process is None:  # there is none, or it is not ours
            return self._session is None
        from anabranch.engine import jvm

        return jvm.is_going(process)

    @property
    def is_alive(self) -> bool:
        """Whether there is a session whose JVM lives."""
        return self._session is not None and not self._is_dead()

    def session(self) -> Any:
        """The session of now. EngineError while there is none."""
        session = self._session
        if session is None or self._is_dead():
            raise EngineError("Spark is not there: it is being started again.")
        return session

    def tell_messages(self) -> None:
        """What the JVM and its Python workers said, beyond what every start says, goes to the log."""
        if self._starts:
            from anabranch.engine import jvm

            for line in jvm.new_messages():
                _log.warning(line)

    def statistics(self) -> dict[str, Any]:
        state = "failed" if self.failed else "running" if self.is_up else "starting"
        state = "restarting" if self.is_restarting else state
        error = self.failed or self._error
        return {"state": state, "starts": self._starts, "error": None if error is None else str(error)}

    # --- lives of Spark --------------------------------------------------------------------------------------------

    def _live(self) -> None:
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                error = self._one_life()
                if self._stopping.is_set():
                    return
                backoff = (Backoff() if self._has_progressed() else backoff).failed()
                self._lose()
                self._error = error
                if backoff.is_exhausted:
                    raise _given_up(error, backoff.failures)
                _log.warning(
                    "%s Spark is started again in %.1f s, and goes on where it was. All else is not affected.",
                    error,
                    backoff.wait_s,
                )
                self._stopping.wait(backoff.wait_s)
        except BaseException as error:
            self._give_up(error)
        finally:
            self._settled.set()
            os.close(self._woken)

    def _one_life(self) -> AnabranchError:
        """From a start to the end of the JVM: how it ended."""
        from anabranch.engine import jvm
        from anabranch.engine.session import open_session

        began = time.monotonic()
        self._process = None
        try:
            self._starts += 1
            self._session = open_session(spark_settings(self._settings), self._stopping.is_set)
            self._process = jvm.process()
            self._begin(self._session, self._say)
        except Exception as error:
            self._process = jvm.process()
            ended = self._process is not None and self.has_died()
            if not self._settled.is_set() and not (ended and jvm.was_killed(self._process)):
                raise  # what the first session refuses is told to who starts the node
            if isinstance(error, StateError | InvariantBroken):
                raise
            if not ended and isinstance(error, AnabranchError):
                return error
            if not ended:
                raise
        else:
            self._now_up(time.monotonic() - began)
            self._wait_end()
        finally:
            self._session, self._is_up = None, False
        return jvm.death(self._process, self._settings.conf)

    def _now_up(self, seconds: float) -> None:
        self._is_up = True
        self._error = None
        if self._settled.is_set():
            _log.warning("Spark runs again after %.1f s.", seconds)
        self._settled.set()

    def _give_up(self, error: BaseException) -> None:
        if self._stopping.is_set():
            return
        if not self._settled.is_set():
            self._refused = error
            return
        ours = InvariantBroken(f"Spark could not be started again: {error!r}.", remedy="Restart the node, report this.")
        self.failed = error if isinstance(error, AnabranchError) else ours
        _log.error("%s", self.failed)

    def _say(self, text: str) -> None:
        if self._stopping.is_set():
            raise EngineError("The node is stopping.")
        if not self._settled.is_set():
            self._said.append(text)

    # --- the process -----------------------------------------------------------------------------------------------

    def _is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _wait_end(self) -> None:
        """Until the JVM has ended, or the node stops. One that is not ours is not watched."""
        if self._process is None:
            self._stopping.wait()
            return
        if hasattr(os, "pidfd_open"):
            self._wait_event(self._process.pid)
        while self._process.poll() is None and not self._stopping.wait(LOOK_S):
            pass  # where the system has no such event, and for the moment between it and the end

    def _wait_event(self, pid: int) -> None:
        with suppress(OSError):  # no such process any more, or an old kernel
            watched = os.pidfd_open(pid)
            try:
                waiting = select.poll()
                waiting.register(watched, select.POLLIN)
                waiting.register(self._woken, select.POLLHUP)
                waiting.poll()
            finally:
                os.close(watched)


def spark_settings(settings: NodeSettings) -> SparkSettings:
    """What Spark is told for a node with these settings."""
    from anabranch.engine.session import SparkSettings

    return SparkSettings(master=settings.master, host=settings.host, conf=settings.conf)


def _given_up(error: AnabranchError, failures: int) -> EngineError:
    return EngineError(
        f"{error.message} Spark was started {failures} times without progress, and is given up: no stage runs.",
        remedy=f"{error.remedy} The next start of the node tries again.".strip(),
    )

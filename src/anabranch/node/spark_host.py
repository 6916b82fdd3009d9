"""The Spark of a host: started, watched, and started again when its JVM dies. All queries of the host share it.

A JVM can end at any moment without a word: the kernel kills the largest process when memory runs out. Then there is
nothing wrong with the host. Its logs, entry points, inlets and readers need no Spark; what Spark was at is in the
checkpoints, as after a crash of the whole host. So another JVM is started, after a wait, and the stages begin in it
where they were.

One thread leads every life of Spark, from the start of a JVM to its end, the first life included: so there is one way
to start, and whoever starts a query can be told to stop while Spark starts. A query that comes later, or comes back
from a rebuild, begins in the session that is there, led by the same thread. It starts what a tenant runs and never
waits for a batch of it: a first batch may wait for room in a log that only the next tenant makes. What one query cannot
begin with is told to whoever started that query, and is tried again while the others run. When a JVM dies before every
stage has run a batch, that life was for nothing; after several of them in a row Spark is given up.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from anabranch import limits
from anabranch.core.backoff import Backoff
from anabranch.core.pacing import HostLoad
from anabranch.errors import AnabranchError, EngineError, InvariantBroken, StateError
from anabranch.node.settings import NodeSettings
from anabranch.runtime.status import SparkState, SparkStatus

if TYPE_CHECKING:
    from subprocess import Popen

    from anabranch.engine.session import SparkSettings

_log: Final = logging.getLogger("anabranch.spark")

LOOK_S: Final = 0.05
"""How often who waits for the first start looks whether it is still wanted."""

_WAKES: Final = 1024
"""More than anybody writes into the pipe between two looks."""

Say = Callable[[str], None]
"""Tells what a start is at; raises if nobody wants it any more."""


class Tenant(Protocol):
    """What runs in Spark, of one query."""

    def begin(self, session: Any, say: Say) -> None:
        """Starts everything in a session that has none of it yet, and waits for nothing that it computes."""
        ...

    def has_progressed(self) -> bool:
        """Whether all of it has come further in the session of now."""
        ...

    def lose(self) -> None:
        """The session is gone: nothing that still comes from it counts."""
        ...

    def give_up(self, error: BaseException) -> None:
        """It had begun once, and cannot begin again."""
        ...


class _Place:
    """A tenant, and what is known of it in the session of now. ``refused`` is why it cannot begin, for good."""

    def __init__(self, tenant: Tenant, stopping: threading.Event) -> None:
        self.tenant: Final = tenant
        self.stopping: Final = stopping
        self.said: Final[deque[str]] = deque()
        self.settled: Final = threading.Event()
        self.refused: BaseException | None = None
        self.has_begun = False
        self.backoff = Backoff()
        self.next_try = 0.0
        """When to begin it, by the monotonic clock, if it could not begin."""

    @property
    def is_due(self) -> bool:
        return not self.has_begun and time.monotonic() >= self.next_try

    def say(self, text: str) -> None:
        if self.stopping.is_set():
            raise EngineError("The node is stopping.")
        if not self.settled.is_set():
            self.said.append(text)


class SparkHost:
    """``stopping`` is the host's: there are no more starts once it is set."""

    def __init__(self, settings: NodeSettings, stopping: threading.Event) -> None:
        self.failed: AnabranchError | None = None
        """Why it was given up, if it was."""
        self.load: Final = HostLoad()
        self._settings = settings
        self._session: Any = None
        self._process: Popen[bytes] | None = None
        self._is_up = self._was_up = self._has_progressed = False
        self._starts = 0
        self._error: AnabranchError | None = None
        self._stopping = stopping
        self._places: list[_Place] = []
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        """Held while a tenant begins."""
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._live, name="spark", daemon=True)

    # --- life ------------------------------------------------------------------------------------------------------

    def run(self, tenant: Tenant, stopping: threading.Event, progress: Callable[[str], None] = lambda _: None) -> None:
        """Returns when everything of the tenant has begun. ``progress`` is told about it, by this thread; what it
        raises ends the wait, and so does what refuses the tenant. ``stopping`` says that the tenant is not wanted any
        more."""
        place = _Place(tenant, stopping)
        with self._lock:
            if self.failed is not None:
                raise self.failed
            self._places.append(place)
            if self._thread.ident is None:
                self._thread.start()
            else:
                self._look_again()
        while not place.settled.wait(LOOK_S) or place.said:
            while place.said:
                progress(place.said.popleft())
            if stopping.is_set():
                raise EngineError("The node is stopping.")
        if place.refused is not None:
            raise place.refused

    def leave(self, tenant: Tenant) -> None:
        """The tenant ends: nothing of it is begun any more. Its ``stopping`` is set."""
        with self._lock:
            self._places = [place for place in self._places if place.tenant is not tenant]
        if threading.current_thread() is not self._thread and self._beginning.acquire(timeout=limits.STOP_WAIT_S):
            self._beginning.release()

    def stop(self) -> None:
        """No more starts: ``stopping`` is set. The session stays: other hosts of this process may use it."""
        self._is_up = False
        with self._lock:
            if self._wake >= 0:
                os.close(self._wake)
                self._wake = -1
        if self._thread.ident is None:
            os.close(self._woken)
        elif self._thread.is_alive():
            self._thread.join(limits.STOP_WAIT_S)

    def _look_again(self) -> None:
        """Wakes the thread that leads: there is a tenant that has not begun. The lock is held."""
        if self._wake >= 0:
            os.write(self._wake, b"!")

    @property
    def is_up(self) -> bool:
        """Whether there is a Spark in which all has begun that can."""
        return self._is_up and not self._is_dead()

    @property
    def is_restarting(self) -> bool:
        return self._was_up and not self._is_up and self.failed is None and not self._stopping.is_set()

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
            raise EngineError("Spark is not available: it is restarting.")
        return session

    def executors(self) -> int | None:
        """How many a cluster gives us; None if there is no cluster."""
        if self._settings.master.startswith("local"):
            return None
        from anabranch.engine.session import executors

        try:
            return executors(self.session())
        except EngineError:
            return 0

    def tell_messages(self) -> None:
        """What the JVM and its Python workers said, beyond what every start says, goes to the log."""
        if self._starts:
            from anabranch.engine import jvm

            for line in jvm.new_messages():
                _log.warning(line)

    def statistics(self) -> SparkStatus:
        error = self.failed or self._error
        return SparkStatus(state=self._state(), starts=self._starts, error=None if error is None else str(error))

    def _state(self) -> SparkState:
        if self.is_restarting:
            return "restarting"
        return "failed" if self.failed else "running" if self.is_up else "starting"

    # --- lives of Spark --------------------------------------------------------------------------------------------

    def _live(self) -> None:
        from anabranch.engine import jvm

        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                error = self._one_life()
                if self._stopping.is_set():
                    return
                progressed = all(place.tenant.has_progressed() for place in self._staying())
                self._has_progressed |= progressed
                if not self._has_progressed and self._is_dead() and not jvm.was_killed(self._process):
                    raise error  # it ended by itself in the first batches: so would the next
                backoff = (Backoff() if progressed else backoff).failed()
                for place in self._staying():
                    place.has_begun, place.next_try = False, 0.0
                    place.tenant.lose()
                self._error = error
                if backoff.is_exhausted:
                    raise _given_up(error, backoff.failures)
                _log.warning(
                    "%s Spark restarts in %.1f s and resumes where it was. Nothing else is affected.",
                    error,
                    backoff.wait_s,
                )
                self._stopping.wait(backoff.wait_s)
        except BaseException as error:
            self._give_up(error)
        finally:
            with self._lock:
                for place in self._places:
                    place.settled.set()
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
            while self._begin_all():
                self._now_up(time.monotonic() - began)
                self._wait_end()
                if self._is_dead() or self._stopping.is_set():
                    break
        except Exception as error:
            self._process = jvm.process()
            ended = self._process is not None and self.has_died()
            if not self._was_up and not (ended and jvm.was_killed(self._process)):
                raise  # what the first session refuses is told to who starts the host
            if isinstance(error, StateError | InvariantBroken):
                raise
            if not ended and isinstance(error, AnabranchError):
                return error
            if not ended:
                raise
        finally:
            self._session, self._is_up = None, False
        return jvm.death(self._process, self._settings.conf)

    def _staying(self) -> list[_Place]:
        with self._lock:
            return [place for place in self._places if place.refused is None]

    def _begin_all(self) -> bool:
        """Those tenants whose turn it is. Returns False if the JVM died meanwhile."""
        return all(self._begin(place) for place in self._staying() if place.is_due)

    def _begin(self, place: _Place) -> bool:
        """One tenant. What it cannot begin with is its own matter, unless it is that the JVM has died."""
        from anabranch.engine import jvm

        try:
            with self._beginning:
                place.tenant.begin(self._session, place.say)
        except Exception as error:
            if self._process is not None and self.has_died():
                if self._was_up or jvm.was_killed(self._process):
                    return False  # it begins in the next life
                raise
            self._refused(place, error)
        else:
            place.has_begun = True
            place.backoff = Backoff()
        place.settled.set()
        return True

    def _refused(self, place: _Place, error: Exception) -> None:
        """Whoever starts a tenant is told at once. One that had begun once is tried again for a while."""
        for_good = not isinstance(error, AnabranchError) or isinstance(error, StateError | InvariantBroken)
        place.backoff = place.backoff.failed()
        if not place.settled.is_set():
            place.refused = error
        elif for_good or place.backoff.is_exhausted:
            place.refused = error
            place.tenant.give_up(error)
        else:
            place.tenant.lose()
            place.next_try = time.monotonic() + place.backoff.wait_s

    def _now_up(self, seconds: float) -> None:
        again, self._is_up = self._error is not None, True
        self._error = None
        if again:
            _log.warning("Spark is running again after %.1f s.", seconds)
        self._was_up = True

    def _give_up(self, error: BaseException) -> None:
        if self._stopping.is_set():
            return
        ours = InvariantBroken(f"Spark could not be started: {error!r}.", remedy="Restart the node, and report this.")
        failed = error if isinstance(error, AnabranchError) else ours
        with self._lock:
            for place in self._places:
                if not place.settled.is_set():
                    place.refused = error
            self.failed = failed
        if self._was_up:
            _log.error("%s", failed)

    # --- the process -----------------------------------------------------------------------------------------------

    def _is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _wait_end(self) -> None:
        """Until the JVM has ended, the host stops, or a tenant is due to begin. A JVM that is not ours is not
        watched."""
        if not self._is_any_waiting() and (self._process is None or hasattr(os, "pidfd_open")):
            self._wait_event(None if self._process is None else self._process.pid)
        while not (self._is_dead() or self._is_any_due() or self._stopping.wait(LOOK_S)):
            pass  # where the system has no such event, for one that is tried again, and between event and end

    def _is_any_waiting(self) -> bool:
        return any(not place.has_begun for place in self._staying())

    def _is_any_due(self) -> bool:
        return any(place.is_due for place in self._staying())

    def _wait_event(self, pid: int | None) -> None:
        with suppress(OSError), ExitStack() as opened:  # no such process any more, or an old kernel
            waiting = select.poll()
            waiting.register(self._woken, select.POLLIN | select.POLLHUP)
            if pid is not None:
                watched = os.pidfd_open(pid)
                opened.callback(os.close, watched)
                waiting.register(watched, select.POLLIN)
            if any(found == self._woken and event & select.POLLIN for found, event in waiting.poll()):
                os.read(self._woken, _WAKES)


def spark_settings(settings: NodeSettings) -> SparkSettings:
    """What Spark is told for a node with these settings."""
    from anabranch.engine.session import SparkSettings

    return SparkSettings(master=settings.master, host=settings.host, conf=settings.conf)


def _given_up(error: AnabranchError, failures: int) -> EngineError:
    return EngineError(
        f"{error.message} Spark was started {failures} times without progress and has been given up: no stage is "
        "running.",
        remedy=f"{error.remedy} The next start of the node will try again.".strip(),
    )

"""Runs the nodes of a deployment on this machine, a process each, and ends them all, whatever happens.

A node that ends by itself is told, and stays as it is until someone restarts it: the others go on without. Nothing here
runs by itself: whoever supervises calls ``look`` now and then. Should that process be killed, a guardian ends the
nodes.

    with Supervisor(file) as nodes:
        nodes.start()
        nodes.wait_running()
        nodes.kill("wisc")
        nodes.restart("wisc", lose_disk=True)
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from anabranch import limits
from anabranch.deploy.child import Child
from anabranch.deploy.guardian import Guardian
from anabranch.deploy.plan import Plan, load_plan
from anabranch.deploy.preflight import check_start
from anabranch.deploy.states import log_of, state_of
from anabranch.errors import ConfigError, OperatorError
from anabranch.exits import how_it_ended
from anabranch.query.problems import candidates

LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A node that is in another state than before."""

    node: str
    state: str
    code: int | None
    """If it has ended: the exit code, or the signal below 0."""


class Supervisor:
    """The nodes of the deployment ``file``; with ``state`` each keeps its state below that directory. They have the
    environment of this process, and ``environment``.

    Nothing is started unless everything can be: see ``preflight``.
    """

    def __init__(
        self,
        file: Path | str,
        *,
        state: Path | None = None,
        plan: Plan | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.file: Final = Path(file).resolve()
        self.plan: Final = plan or load_plan(self.file)
        self.states: Final[Mapping[str, Path]] = {
            name: state_of(node, self.file, state).resolve() for name, node in self.plan.nodes.items()
        }
        check_start(self.file, self.plan, self.states)
        self._children: Final = {
            name: Child(name, [str(self.file), name, "--state", str(where)], log_of(where), environment or {})
            for name, where in self.states.items()
        }
        self._guardian = Guardian()
        self._guardian.start()

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self, names: Iterable[str] | None = None) -> None:
        """They wait for each other by themselves, in any order."""
        for name in self._children if names is None else names:
            self._guardian.add(self.child(name).start())

    def stop(self, wait_s: float = limits.NODE_STOP_WAIT_S) -> None:
        """A clean stop of all, at the same time; those that take longer are killed."""
        for child in self._children.values():
            child.ask_stop()
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline and any(child.is_alive for child in self._children.values()):
            self.look()
            time.sleep(LOOK_S)
        for child in self._children.values():
            child.end()
        self._guardian.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- faults ----------------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """SIGKILL for the node and all that it has started."""
        child = self.child(name)
        child.kill()
        self._guardian.remove(child.session)

    def pause(self, name: str) -> None:
        """SIGSTOP for all of them: the node is silent, and its connections stay open."""
        self.child(name).pause()

    def resume(self, name: str) -> None:
        self.child(name).resume()

    def restart(self, name: str, *, lose_disk: bool = False) -> None:
        """Starts it again on its state directory, or without it. One that still lives is killed first."""
        if self.child(name).is_alive:
            self.kill(name)
        if lose_disk:
            shutil.rmtree(self.states[name], ignore_errors=True)
        self.start([name])

    # --- looking ---------------------------------------------------------------------------------------------------

    def look(self) -> list[Change]:
        """What has become of the nodes since the last look, except by what was asked for here."""
        changed = [child for child in self._children.values() if child.look()]
        for child in changed:
            if not child.is_alive:
                self._guardian.remove(child.session)
        if self._guardian.is_gone:
            self._guardian.start()
            for child in self._children.values():
                if child.is_alive:
                    self._guardian.add(child.session)
        return [Change(node=child.name, state=child.state, code=child.code) for child in changed]

    def wait_running(
        self,
        names: Iterable[str] | None = None,
        *,
        timeout_s: float = limits.NODE_START_WAIT_S,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Until these nodes run, or all; ``OperatorError`` with its last lines, if one ends or takes too long.

        ``between`` is called while it waits, and may end that by raising.
        """
        waited = [self.child(name) for name in (self._children if names is None else names)]
        deadline = time.monotonic() + timeout_s
        while any(child.state != "running" for child in waited):
            between()
            self.look()
            for child in waited:
                if not child.is_alive or time.monotonic() > deadline:
                    told = "\n  ".join(child.last_lines())
                    how = f"is {child.state}" if child.code is None else how_it_ended(child.code)
                    raise OperatorError(f"The node {child.name} {how}. Its last lines:\n  {told}")
            time.sleep(LOOK_S)

    def child(self, name: str) -> Child:
        if name not in self._children:
            raise ConfigError(f"There is no node {name!r}.", remedy=candidates(name, self._children))
        return self._children[name]

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Per node: its state, process, how often it was started, and where its messages are."""
        return {name: child.statistics() for name, child in self._children.items()}

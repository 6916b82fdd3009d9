"""What a node says of itself as a whole, in one word or two, and what that means."""

from __future__ import annotations

from enum import StrEnum


class NodeState(StrEnum):
    """In ``status``, of a node and of a deployment."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING_SPARK = "restarting Spark"
    REBUILDING = "rebuilding"
    STOPPING = "stopping"
    FAILED = "failed"

    @classmethod
    def _missing_(cls, value: object) -> NodeState | None:
        """A state that only newer releases have is shown as it is."""
        if not isinstance(value, str):
            return None
        state = str.__new__(cls, value)
        state._name_ = state._value_ = value
        return state

    @property
    def meaning(self) -> str:
        return _MEANING.get(self, "known to newer releases")


_MEANING = {
    NodeState.WAITING: "for a query",
    NodeState.STARTING: "accepts rows, and serves the results of earlier runs",
    NodeState.RUNNING: "every stage has run a batch",
    NodeState.RESTARTING_SPARK: "its JVM died; accepts and serves rows meanwhile",
    NodeState.REBUILDING: "fetches its state from a peer",
    NodeState.STOPPING: "as requested",
    NodeState.FAILED: "cannot continue",
}

"""What a running deployment does when it is asked: tell how its nodes are, and hurt them, if its file allows that."""

from __future__ import annotations

from anabranch.deploy.control import Answer, Request
from anabranch.deploy.supervisor import Supervisor
from anabranch.errors import ConfigError


class Faults:
    """Answers the requests of ``control``."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def handle(self, request: Request) -> Answer:
        if request.get("do") == "look":
            return {"nodes": self._supervisor.statistics()}
        self._check_allowed()
        name = str(request.get("node"))
        match request.get("do"):
            case "kill":
                self._supervisor.kill(name)
            case "pause":
                self._supervisor.pause(name)
            case "resume":
                self._supervisor.resume(name)
            case "restart":
                self._supervisor.restart(name, lose_disk=bool(request.get("lose_disk")))
            case other:
                raise ConfigError(f"There is no fault {other!r}.", remedy="Use the same version of Anabranch.")
        return {"state": self._supervisor.child(name).state}

    def _check_allowed(self) -> None:
        if not self._supervisor.plan.faults:
            raise ConfigError(
                f"{self._supervisor.file} does not allow faults.",
                remedy="Write faults = true at its top, and restart it.",
            )


def refuse_embedded(request: Request) -> Answer:
    """What nodes that share one process answer."""
    raise ConfigError(
        "The nodes of this deployment share one process: no fault can be injected into one of them alone.",
        remedy="Start it without --embedded.",
    )

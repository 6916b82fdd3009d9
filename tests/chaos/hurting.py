"""Does faults to a running deployment, undoes each when its time has come, and looks whether what was hurt is whole.

Time is how many entries the producers have pushed. Nothing here runs by itself: whoever has it calls ``advance`` now
and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf

from anabranch.deploy.link_faults import fault_links, unheard
from anabranch.deploy.looking import Found, Looker
from anabranch.deploy.supervisor import Supervisor
from anabranch.model.links import Heal, LinkFault
from anabranch.runtime.status import HostStatus
from tests.chaos.fault_plan import Fault, Layout
from tests.chaos.health import why_not_back

STARVED_S, FED_S = 1.0, 0.05
"""How long a node that starves gets no time, and how much it gets then."""

LOOK_S = 1.0
"""How often the nodes are asked how they are: each question costs them a moment."""


@dataclass(slots=True)
class Wound:
    """A fault that was done, and when it was undone; it is over when everything it touched has come back."""

    fault: Fault
    began: int
    """After how many entries."""
    healed_s: float | None = None
    ran_s: float | None = None
    """When a node that was started again ran."""
    lacks: str | None = None
    """What was still missing at the last look."""
    fed_s: float = 0.0
    """When a node that starves last got some time."""


@dataclass(slots=True)
class Hurting:
    """What is hurt now, and what has been."""

    nodes: Supervisor
    layout: Layout
    looker: Looker
    pushed: Callable[[], int]
    """How many entries the producers have pushed, of all lanes."""
    report: Callable[[str], None]
    done: list[Fault] = field(default_factory=list)
    back_s: dict[str, list[float]] = field(default_factory=dict)
    """Per kind, how long it took from the heal until everything was back."""
    alarms: dict[str, object] = field(default_factory=dict)
    """Of copies that were found to differ, by node and stream."""
    found: Found = field(default_factory=dict)
    """What the nodes said last."""
    batch_ms: dict[str, object] = field(default_factory=dict)
    """Of each stage, when it was asked last."""
    _wounds: list[Wound] = field(default_factory=list)
    _looked_s: float = 0.0

    def may_begin(self, fault: Fault) -> bool:
        """Whether nobody who would have to stand in is hurt."""
        groups = self.layout.groups_of(fault)
        return not any(groups & self.layout.groups_of(wound.fault) for wound in self._wounds)

    def begin(self, fault: Fault) -> None:
        self.report(str(fault))
        match fault.kind:
            case "kill" | "lose disk":
                self.nodes.kill(*fault.where)
            case "pause" | "starve":
                self.nodes.pause(*fault.where)
            case _:
                assert fault.link is not None
                self._fault_link(fault, fault.link)
        self._wounds.append(Wound(fault, self.pushed()))
        self.done.append(fault)

    def advance(self) -> None:
        """Undoes what is due, and looks now and then who is back."""
        pushed = self.pushed()
        for wound in self._wounds:
            if wound.healed_s is None and pushed >= wound.began + wound.fault.lasts:
                self._heal(wound)
            elif wound.healed_s is None and wound.fault.kind == "starve":
                self._feed(wound)
        if time.monotonic() >= self._looked_s + LOOK_S:
            self._look()
            self._looked_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether all that was to be undone is whole again."""
        return all(isinf(wound.fault.lasts) for wound in self._wounds)

    @property
    def open_wounds(self) -> list[str]:
        return [f"{wound.fault}: {wound.lacks or 'not undone'}" for wound in self._wounds]

    def _heal(self, wound: Wound) -> None:
        fault = wound.fault
        match fault.kind:
            case "kill" | "lose disk":
                self.nodes.restart(*fault.where, lose_disk=fault.kind == "lose disk")
            case "pause" | "starve":
                self.nodes.resume(*fault.where)
            case _:
                self._fault_link(fault, Heal())
        wound.healed_s = time.monotonic()

    def _feed(self, wound: Wound) -> None:
        """A moment, once a second, for a node that starves: it does a little of all that has piled up."""
        if time.monotonic() < wound.fed_s + STARVED_S:
            return
        self.nodes.resume(*wound.fault.where)
        time.sleep(FED_S)
        self.nodes.pause(*wound.fault.where)
        wound.fed_s = time.monotonic()

    def _fault_link(self, fault: Fault, link: LinkFault) -> None:
        one, other = fault.where
        for sentence in unheard(fault_links(self.nodes.plan, one, other, link)):
            self.report(f"  {sentence}")

    def _look(self) -> None:
        standing = [name for name in self.nodes.plan.nodes if self.nodes.child(name).state == "running"]
        found = self.found = self.looker.ask(standing)
        self._note(found)
        for wound in [each for each in self._wounds if each.healed_s is not None]:
            self._look_after(wound, found)

    def _look_after(self, wound: Wound, found: Found) -> None:
        """Of what others have a part in that are hurt themselves, nothing can be expected."""
        assert wound.healed_s is not None
        away = {node for other in self._wounds if other is not wound for node in other.fault.where}
        took_s = time.monotonic() - wound.healed_s
        if wound.ran_s is None and all(self.nodes.child(node).state == "running" for node in wound.fault.where):
            wound.ran_s = took_s
        reasons = [why_not_back(self.nodes.plan, found, node, away) for node in wound.fault.where]
        lacks = next((reason for reason in reasons if reason is not None), None)
        if lacks is None:
            self._wounds.remove(wound)
            self.back_s.setdefault(wound.fault.kind, []).append(took_s)
            self.report(f"{_back(wound, took_s)}; at last {wound.lacks or 'nothing was missing'}")
        wound.lacks = lacks

    def _note(self, found: Found) -> None:
        for node, said in found.items():
            if isinstance(said, HostStatus):
                for query in said.queries.values():
                    self.alarms |= {f"{node}, {stream}": facts for stream, facts in query.alarms.items()}
                    self.batch_ms |= {f"{node} {name}": stage.batch_ms for name, stage in query.stages.items()}


def _back(wound: Wound, took_s: float) -> str:
    where = " - ".join(wound.fault.where)
    ran = f", ran after {wound.ran_s:.1f} s" if wound.fault.kind in ("kill", "lose disk") else ""
    return f"{where} whole {took_s:.1f} s after the {wound.fault.kind} was undone{ran}"

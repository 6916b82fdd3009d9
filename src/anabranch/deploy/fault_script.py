"""What is done to a deployment, and when: a fault script, written as TOML.

    [[steps]]
    at = "10s"
    do = "cut"
    between = ["wisc", "osu"]

    [[steps]]
    at = "25s"
    do = "heal"
    between = ["wisc", "osu"]

    [[steps]]
    at = "30s"
    do = "kill"
    node = "purdue"

Times count from when the script begins. It is checked against the deployment as a whole, before anything is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from anabranch.deploy import mistakes
from anabranch.deploy.control import Request
from anabranch.deploy.link_faults import check_allowed, ends, links_between
from anabranch.deploy.mistakes import Report
from anabranch.deploy.plan import Plan
from anabranch.deploy.tables import DurationUs, Names, RateBytes, Table, load_tables, read_tables
from anabranch.errors import ConfigError, DeploymentError
from anabranch.model.links import Cut, Delay, Heal, LinkFault, Slow
from anabranch.model.times import format_duration
from anabranch.query.problems import candidates

ALWAYS: Final = ("at", "do")
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "kill": ("node",),
    "pause": ("node",),
    "resume": ("node",),
    "restart": ("node",),
    "cut": ("between",),
    "delay": ("between", "delay"),
    "slow": ("between", "rate"),
    "heal": ("between",),
}
"""The keys that a fault must have, beside ``at`` and ``do``."""
MAY_HAVE: Final[dict[str, tuple[str, ...]]] = {"restart": ("lose_disk",), "delay": ("jitter",)}


class StepTable(Table):
    """One step as it was written."""

    at_us: DurationUs | None = Field(default=None, alias="at")
    do: str = ""
    node: str = ""
    between: Names = ()
    delay_us: DurationUs | None = Field(default=None, alias="delay")
    jitter_us: DurationUs | None = Field(default=None, alias="jitter")
    rate_bytes_s: RateBytes | None = Field(default=None, alias="rate")
    lose_disk: bool = False

    @property
    def given(self) -> set[str]:
        """The keys that were written."""
        return {field.alias or name for name, field in type(self).model_fields.items() if name in self.model_fields_set}


class ScriptTable(Table):
    """A whole script as it was written."""

    steps: list[StepTable] = Field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """What is done to a node."""

    do: str
    node: str
    lose_disk: bool = False

    @property
    def request(self) -> Request:
        """As whoever runs the nodes is asked (``control``)."""
        return {"do": self.do, "node": self.node, "lose_disk": self.lose_disk}

    def __str__(self) -> str:
        return f"{self.do} {self.node}" + (" without its disk" if self.lose_disk else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenFault:
    """What is done to the links between two nodes or sites."""

    one: str
    other: str
    fault: LinkFault

    def __str__(self) -> str:
        return f"{self.one} - {self.other}: {self.fault}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStep:
    """One step of a script."""

    at_us: int
    what: NodeFault | BetweenFault

    def __str__(self) -> str:
        return f"at {format_duration(self.at_us)} {self.what}"


def load_script(path: Path | str, plan: Plan) -> list[FaultStep]:
    """The steps of a script, in the order of their times; DeploymentError with all that is wrong with it."""
    check_allowed(plan)
    script, report = read_tables(ScriptTable, load_tables(Path(path)))
    if not script.steps:
        report.add("missing-key", ("steps",), "There are no steps.", 'Add one: [[steps]] at = "10s", do = "kill", ...')
    for index, step in enumerate(script.steps):
        _check(step, ("steps", index), plan, report)
    if report.mistakes:
        raise DeploymentError(str(path), report.mistakes)
    return sorted((_made(step) for step in script.steps), key=lambda step: step.at_us)


def _check(step: StepTable, place: mistakes.Path, plan: Plan, report: Report) -> None:
    if report.is_told(place):
        return
    missing = [key for key in ALWAYS if key not in step.given and not report.is_told((*place, key))]
    if step.do in NEEDS:
        wanted, allowed = NEEDS[step.do], MAY_HAVE.get(step.do, ())
        missing += [key for key in wanted if key not in step.given and not report.is_told((*place, key))]
        for key in sorted(step.given - {*ALWAYS, *wanted, *allowed}):
            message = f"`{key}` does not apply to {step.do}."
            report.add("bad-fault", (*place, key), message, f"It takes: {', '.join((*wanted, *allowed))}.")
    elif "do" in step.given:
        message = f"There is no fault {step.do!r}."
        report.add("bad-fault", (*place, "do"), message, candidates(step.do, NEEDS))
    for key in missing:
        report.add("missing-key", (*place, key), f"The step has no `{key}`.", f"Add {key}.")
    _check_names(step, place, plan, report)
    if step.delay_us is not None and (step.jitter_us or 0) > step.delay_us:
        message = "The jitter is larger than the delay: some messages would arrive before they were sent."
        report.add("bad-fault", (*place, "jitter"), message, "Raise the delay, or lower the jitter.")


def _check_names(step: StepTable, place: mistakes.Path, plan: Plan, report: Report) -> None:
    if step.node and step.node not in plan.nodes:
        message = f"There is no node {step.node!r}."
        report.add("unknown-node", (*place, "node"), message, candidates(step.node, plan.nodes))
    if "between" not in step.given:
        return
    at = (*place, "between")
    if len(step.between) != 2:
        message = f"A link has two ends, not {len(step.between)}."
        report.add("bad-link", at, message, 'Write between = ["a", "b"].')
        return
    unknown = False
    for name in step.between:
        try:
            ends(plan, name)
        except ConfigError as error:
            unknown = True
            report.add("unknown-node", at, error.message, error.remedy)
    if unknown:
        return
    try:
        links_between(plan, *step.between)
    except ConfigError as error:
        report.add("bad-link", at, error.message, error.remedy)


def _made(step: StepTable) -> FaultStep:
    assert step.at_us is not None
    if step.node:
        what: NodeFault | BetweenFault = NodeFault(do=step.do, node=step.node, lose_disk=step.lose_disk)
    else:
        one, other = step.between
        what = BetweenFault(one=one, other=other, fault=_link_fault(step))
    return FaultStep(at_us=step.at_us, what=what)


def _link_fault(step: StepTable) -> LinkFault:
    match step.do:
        case "delay":
            return Delay(step.delay_us or 0, step.jitter_us or 0)
        case "slow":
            assert step.rate_bytes_s is not None
            return Slow(step.rate_bytes_s)
        case "cut":
            return Cut()
        case _:
            return Heal()

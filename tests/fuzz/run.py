"""Cases until the time is up; the first that fails is made small, shown and kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import keep, random_case, to_yaml
from tests.fuzz.judge import judge
from tests.fuzz.shrink import shrink

EPOCHS = 60
"""Cases per diagram: a start of Spark's queries takes seconds, a case more only moments."""
SHRINKING = 60
"""Runs that are spent on a failing case."""


@dataclass(slots=True)
class Report:
    """What was tried, and what failed."""

    diagrams: int = 0
    cases: int = 0
    seconds: float = 0.0
    boxes: Counter[str] = field(default_factory=Counter)
    kept: list[Path] = field(default_factory=list)

    def text(self) -> str:
        rate = self.cases / self.seconds * 60 if self.seconds else 0.0
        boxes = ", ".join(f"{count} {kind}" for kind, count in sorted(self.boxes.items()))
        failed = f"; failed: {', '.join(map(str, self.kept))}" if self.kept else "; nothing found"
        return (
            f"{self.cases} cases in {self.diagrams} diagrams ({boxes}), {self.seconds:.0f} s, "
            f"{rate:.0f} cases a minute{failed}"
        )


def fuzz(seed: int, seconds: float, kept: Path, say: Callable[[str], None]) -> Report:
    """Runs the cases of this seed and those after it. Stops at the first failure."""
    report = Report()
    began = time.monotonic()
    while time.monotonic() - began < seconds and not report.kept:
        case = random_case(seed + report.diagrams, EPOCHS)
        faults = judge(case)
        report.diagrams += 1
        report.cases += case.epochs
        report.boxes.update(type(box).__name__ for box in case.diagram.boxes)
        report.seconds = time.monotonic() - began
        say(f"seed {case.seed}: {case.epochs} cases, {'FAILED' if faults else 'ok'}; {report.text()}")
        if faults:
            say("\n".join(faults[:10]))
            say("making it smaller …")
            case, faults = shrink(case, faults, judge, SHRINKING)
            report.kept.append(keep(case, faults, kept))
            say(to_yaml(case, faults))
    return report

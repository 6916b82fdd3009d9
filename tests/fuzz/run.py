"""Case after case; the first that fails is made small, shown and kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import Case, keep, to_yaml
from tests.fuzz.judge import judge
from tests.fuzz.shrink import shrink

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


def fuzz(cases: Iterable[Case], kept: Path, say: Callable[[str], None]) -> Report:
    """Runs all of them, or up to the first that fails."""
    report = Report()
    began = time.monotonic()
    for case in cases:
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
            break
    return report

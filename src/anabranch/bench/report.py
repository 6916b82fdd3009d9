"""What a benchmark found, in the form that all of them have: rows with a bound, where they come from, and a verdict.

A ratio is value divided by baseline. A bound is on the ratio where there is a baseline, on the value where there is
none. Nothing here tells the name of the machine or a path on it: a report may be published.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.table import Table

MISSED: Final = 1
"""The exit code when a bound is missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How small or how large a number may be."""

    least: float | None = None
    most: float | None = None

    def holds(self, number: float) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        sides = ((">=", self.least), ("<=", self.most))
        return " and ".join(f"{sign} {limit:g}" for sign, limit in sides if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured number; ``baseline`` is the same of what it is compared with."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    bound: Bound | None = None
    goal: Bound | None = None
    """What is aimed at beyond the bound. It is shown, and decides nothing."""

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def ok(self) -> bool:
        return self._keeps(self.bound)

    @property
    def verdict(self) -> str:
        """As the table shows it."""
        bound = f"{self.bound}  {'ok' if self.ok else 'MISSED'}" if self.bound else ""
        goal = f"goal {self.goal}{'' if self._keeps(self.goal) else ': not yet'}" if self.goal else ""
        return ", ".join(filter(None, (bound, goal)))

    def _keeps(self, bound: Bound | None) -> bool:
        judged = self.value if self.ratio is None else self.ratio
        return bound is None or bound.holds(judged)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": _short(self.value),
            "unit": self.unit,
            "baseline": _short(self.baseline),
            "ratio": _short(self.ratio),
            "bound": None if self.bound is None else str(self.bound),
            "ok": self.ok,
        }


@dataclass(slots=True, kw_only=True)
class Report:
    """All results of one command."""

    command: str
    baseline: str | None
    """What the numbers are compared with, as the heading of a column; None if they stand for themselves."""
    measured: str = "anabranch"
    """What the numbers are of, as the heading of the column before it."""
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    """How many processes wanted a processor in the minute before: on a busy machine numbers mean little."""
    results: list[Result] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    """What explains the results, for the JSON only."""

    def add(self, *results: Result) -> None:
        self.results += results

    @property
    def missed(self) -> list[Result]:
        return [result for result in self.results if not result.ok]

    @property
    def exit_code(self) -> int:
        return MISSED if self.missed else 0

    def as_json(self) -> dict[str, Any]:
        goals = {result.name: str(result.goal) for result in self.results if result.goal is not None}
        return {
            "command": self.command,
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "load_before": self.load_before,
            "baseline": self.baseline,
            "results": [result.as_json() for result in self.results],
            "details": self.details | ({"goals": goals} if goals else {}),
        }

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(self.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("", no_wrap=True)
        for heading in (self.measured, *((self.baseline, "ratio") if self.baseline else ())):
            table.add_column(heading, justify="right", no_wrap=True)
        for heading in ("unit", "bound"):
            table.add_column(heading, no_wrap=True)
        for each in self.results:
            ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
            compared = (_shown(each.baseline), ratio) if self.baseline else ()
            table.add_row(each.name, _shown(each.value), *compared, each.unit, each.verdict)
        return table


def commit() -> str | None:
    """The commit of the sources that run, with ``+`` if they were changed since; None where they are no checkout."""
    here = Path(__file__).parent
    found = _git(here, "rev-parse", "HEAD")
    if found is None or _git(here, "ls-files", "--error-unmatch", __file__) is None:
        return None
    return f"{found}+" if _git(here, "status", "--porcelain", "--untracked-files=no") else found


def machine() -> dict[str, Any]:
    """What decides how fast things are, and nothing that tells one machine from another of its kind."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("anabranch", "pyspark", "pyarrow")},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return _named(lines, "model name") or platform.machine()


def _named(lines: Iterable[str], key: str) -> str:
    found: Mapping[str, str] = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(list(lines)))
    }
    return found.get(key, "")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _short(number: float | None) -> float | None:
    """Four digits are more than any of this is exact to."""
    return None if number is None else float(f"{number:.4g}")


def _shown(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"

"""What all benchmarks have in common: how much to measure, where, whom to tell, and who may end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from anabranch.bench.report import Report

Plan = TypeVar("Plan")
"""How much is measured."""


class Bench(ABC, Generic[Plan]):
    """One run, in a directory of its own. ``say`` is told what is measured; ``check`` may end it by raising."""

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None], check: Callable[[], None]) -> None:
        self._plan = plan
        self._directory = directory
        self._say = say
        self._check = check

    @abstractmethod
    def run(self, report: Report) -> None:
        """Measures, and adds what was found to the report."""

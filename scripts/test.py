"""Runs the tests in groups, two more at once than there are cores, and tells at the end how each went and what it took.

Each group is one pytest. Those with Spark begin, because they take longest, beside one that waits for most of its time.
Those that only compute come last: they keep the cores busy to the end. More at once would only starve each other. Paths
say what a group collects, where they can: to load all tests takes several seconds.
Options go to each of them, but for ``--only NAME``, which is a part of a group's name.

Ctrl-C and SIGTERM end all that runs. See ``adopt.py`` for processes that outlive their tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ADOPT = Path(__file__).with_name("adopt.py")


def _without(paths: Iterable[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


PURE = tuple(f"tests/unit/{part}" for part in ("core", "model", "query", "reference", "storage"))

DEPLOYED = tuple(f"tests/integration/test_{part}.py" for part in ("deploy", "shared_hosts", "supervisor", "up"))

TOGETHER = tuple(f"tests/{part}" for part in ("contract", "fuzz", "property", "simulation"))

FIRST_HALF, SECOND_HALF = (f"--ignore-glob=*/integration/test_[{letters}]*" for letters in ("o-z", "a-n"))

GROUPS = {
    "with nodes as processes": ("tests/integration", "-m", "processes", *_without(DEPLOYED)),
    "in one Spark session": ("tests", "--ignore=tests/unit", "-m", "spark", FIRST_HALF),
    "in another Spark session": ("tests/integration", "-m", "spark", SECOND_HALF),
    "with deployments": DEPLOYED,
    "of parts together": ("tests", "--ignore=tests/unit", "-m", "not (spark or processes)", *_without(TOGETHER)),
    "of parts": ("tests/unit", *_without(("tests/unit/cli", *PURE))),
    "of rules together": (*TOGETHER, "-m", "not spark"),
    "of rules and stores": PURE,
    "of the command line": ("tests/unit/cli",),
}
"""First those with Spark, then those that wait, then those that compute."""

LOOK_S = 0.1


@dataclass
class Group:
    """A pytest that runs, or has."""

    name: str
    directory: Path
    process: subprocess.Popen[bytes]
    began_s: float = field(default_factory=time.monotonic)
    wall_s: float = 0.0

    @classmethod
    def started(cls, name: str, directory: Path, options: list[str]) -> Group:
        directory.mkdir()
        command = [sys.executable, str(ADOPT), str(directory / "processor_s")]
        command += [sys.executable, "-m", "pytest", *GROUPS[name], "--costs", str(directory / "costs.json"), *options]
        print(f"--- tests {name}: running", flush=True)
        with directory.joinpath("output").open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=_environment()
            )
        return cls(name, directory, process)

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    @property
    def has_passed(self) -> bool:
        return self.process.returncode == 0

    @property
    def output(self) -> str:
        return self.directory.joinpath("output").read_text(errors="replace")

    @property
    def processor_s(self) -> float:
        return float(self.directory.joinpath("processor_s").read_text())

    @property
    def costs(self) -> list[dict[str, object]]:
        file = self.directory / "costs.json"
        return json.loads(file.read_text()) if file.exists() else []

    @property
    def summary(self) -> str:
        """Pytest's own last line."""
        found = re.findall(r"^=+ (.* in [0-9.]+s.*?) =+$", self.output, re.MULTILINE)
        said = found[-1] if found else "pytest did not come to its end"
        return said if self.has_passed else f"FAILED: {said}"


def _environment() -> dict[str, str]:
    """Many processes load the same modules: what they compile is kept, also where Python is told not to."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def main() -> int:
    options, others = _options()
    names = [name for name in GROUPS if options.only in name]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="anabranch-tests-") as directory:
        try:
            began_s = time.monotonic()
            groups = _run(names, Path(directory), others, options.at_once)
            _tell(groups, time.monotonic() - began_s, options.shown)
        except KeyboardInterrupt:
            return 130
    return 0 if all(group.has_passed for group in groups) else 1


def _options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="scripts/test.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="NAME", help="groups with this in their name")
    parser.add_argument("--shown", type=int, default=15, metavar="TESTS", help="of those that cost most, so many")
    parser.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)) + 2, help="groups, at most")
    return parser.parse_known_args()


def _run(names: list[str], directory: Path, options: list[str], at_once: int) -> list[Group]:
    """All of them, whatever fails; what each said is shown when it is over."""
    waiting, running, over = list(names), [], []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                running.append(Group.started(name, directory / name, options))
            time.sleep(LOOK_S)
            for group in [each for each in running if each.is_over]:
                group.wall_s = time.monotonic() - group.began_s
                running.remove(group)
                over.append(group)
                print(f"--- tests {group.name}:\n{group.output}", flush=True)
    finally:
        for group in running:
            group.process.terminate()
        for group in running:
            group.process.wait()
    return over


def _tell(groups: list[Group], wall_s: float, shown: int) -> None:
    costs = [(cost["processor_s"], cost["wall_s"], cost["test"]) for group in groups for cost in group.costs]
    print(f"--- those that cost most, of {len(costs)}:\n\n  processor   wall")
    for processor_s, cost_s, test in sorted(costs, reverse=True)[:shown]:
        print(f"  {processor_s:7.1f} s {cost_s:4.0f} s  {test}")
    print("\n  processor   wall  tests")
    for group in groups:
        print(f"  {group.processor_s:7.0f} s {group.wall_s:4.0f} s  {group.name}: {group.summary}")
    failed = [group.name for group in groups if not group.has_passed]
    processor_s = sum(group.processor_s for group in groups)
    print(f"  {processor_s:7.0f} s {wall_s:4.0f} s  in all: {f'FAILED: {failed}' if failed else 'passed'}")


if __name__ == "__main__":
    sys.exit(main())

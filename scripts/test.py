"""Runs the tests in five processes at once, and shows what they say one after the other.

Tests of parts, those of the command line, tests that share one Spark session, tests that start nodes as processes of
their own, and what is random or simulated: while one waits, the others work. Options go to each of them.

The tests of parts are one thread among many, so they go first; then come those that wait for clocks and for each other,
and the others take what they leave. So all end at about the same time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROUPS = {
    "of parts": (0, ("tests/unit", "--ignore=tests/unit/cli")),
    "of the command line": (10, ("tests/unit/cli",)),
    "in one Spark session": (5, ("tests", "--ignore=tests/unit", "-m", "spark and not fuzz")),
    "with nodes as processes": (5, ("tests", "--ignore=tests/unit", "-m", "processes")),
    "simulated and random": (5, ("tests", "--ignore=tests/unit", "-m", "fuzz or not (spark or processes)")),
}
"""How nice each is to the others, and its tests."""


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        running = [
            (name, _start(niceness, which, Path(directory, name)), Path(directory, name))
            for name, (niceness, which) in GROUPS.items()
        ]
        failed = []
        try:
            for name, process, said in running:
                print(f"--- tests {name}: running", flush=True)
                if process.wait() != 0:
                    failed.append(name)
                print(said.read_text(errors="replace"), flush=True)
        except KeyboardInterrupt:  # the tests got it too, and end by themselves
            for _, process, _ in running:
                process.wait()
            return 130
    print(f"--- {time.monotonic() - began:.0f} s; {f'failed: {failed}' if failed else 'all passed'}")
    return 1 if failed else 0


def _start(niceness: int, which: tuple[str, ...], output: Path) -> subprocess.Popen[bytes]:
    command = ["nice", f"-{niceness}", sys.executable, "-m", "pytest", *which, *sys.argv[1:]]
    with output.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())

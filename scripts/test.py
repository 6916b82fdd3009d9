"""Runs the tests in three processes at once, and shows what they say one after the other.

Tests without Spark, tests that share one Spark session, and tests that start nodes as processes of their own, with the
random diagrams, which take as long as they are given: while one waits, the others work. Options go to each of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROUPS = {
    "without Spark": "not spark and not processes",
    "in one Spark session": "spark and not fuzz",
    "with nodes as processes, and random diagrams": "processes or fuzz",
}


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        running = [
            (name, _start(marks, Path(directory, name)), Path(directory, name)) for name, marks in GROUPS.items()
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


def _start(marks: str, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "tests", "-m", marks, *sys.argv[1:]]
    with output.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())

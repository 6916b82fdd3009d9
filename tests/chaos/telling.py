"""What a chaos run tells: lines with times, and a verdict. What went wrong is kept, and how to see it again is said."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self


class Teller:
    """Of one run with one seed, in a directory of its own, which goes with the ``with`` block unless the run failed.

    Ctrl-C and SIGTERM end it as an error would: everything is cleaned up.
    """

    def __init__(self, seed: int, again: str) -> None:
        """``again`` is the command that repeats it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        self.seed = seed
        self.directory = Path(tempfile.mkdtemp(prefix="anabranch-chaos-"))
        self._again = again
        self._failed = False
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def failed(self, error: Exception) -> int:
        self.say(f"FAILED: {error}")
        self._failed = True
        return 1

    def judge(self, problems: Mapping[str, list[str]]) -> int:
        """The exit code."""
        for what, found in problems.items():
            print(f"{what}: {'ok' if not found else f'{len(found)} problems'}")
            for problem in found:
                print(f"  - {problem}")
        self._failed = any(problems.values())
        if not self._failed:
            print("passed: nothing lost, nothing twice.")
        return int(self._failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        """Whoever stops it knows why; anything else is worth a look."""
        if self._failed or (kind is not None and issubclass(kind, Exception)):
            print(f"FAILED with --seed {self.seed}. State, logs and query are kept in {self.directory}.")
            print(f"Again: {self._again} --seed {self.seed}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


def add_seed(parser: argparse.ArgumentParser) -> None:
    another = time.time_ns() % 1_000_000
    parser.add_argument("--seed", type=int, default=another, help="[default: another one each time]")

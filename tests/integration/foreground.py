"""Commands in the foreground of a shell: what they say, and the ways to stop them from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from tests.spark import QUICK_JVM
from tests.waiting import HANG_S, wait_for


class Foreground:
    """A command as a process, as a terminal would start it: in a process group of its own."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anabranch.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env=os.environ | (environment or {}),
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._collect, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._collect, args=(self.process.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _collect(stream: IO[str], into: list[str]) -> None:
        with stream:
            into.extend(line.rstrip("\n") for line in stream)  # line by line: others look while it grows

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def has_jvm(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            return any(child.name() == "java" for child in self.children())
        return False

    def signal_group(self, number: int) -> None:
        """As a terminal does, and a shell that is told to stop."""
        os.killpg(self.process.pid, number)

    def signal_all(self, number: int) -> None:
        """As systemd does with a control group: every process, whatever its group, in no order of use to us."""
        for process in [*self.children(), psutil.Process(self.process.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def wait_stopped(self) -> None:
        """Until it has stopped itself at its failpoint."""
        process = psutil.Process(self.process.pid)
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, lambda: (self.lines, self.errors))

    def wait_end(self) -> int:
        code = self.process.wait(HANG_S)
        for reader in self._readers:
            reader.join(HANG_S)
        return code


class Running(Foreground):
    """``anabranch run``."""

    def __init__(self, query: Path, state: Path, *options: str, failpoint: str = "") -> None:
        quick = ("--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}")
        super().__init__(
            "run",
            str(query),
            "--state",
            str(state),
            *options,
            *quick,
            environment={"ANABRANCH_FAILPOINT": failpoint},
        )

    def wait_address(self) -> str:
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.lines):
                if match := re.fullmatch(r"address: (\S+)", line):
                    return match[1]
            time.sleep(0.1)
        raise AssertionError(f"no address: {self.lines} {self.errors}")


@contextmanager
def running(query: Path, state: Path, *options: str, failpoint: str = "") -> Iterator[Running]:
    node = Running(query, state, *options, failpoint=failpoint)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
        node.wait_end()

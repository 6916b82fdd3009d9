"""``anabranch run`` in the foreground of a shell: what it says, and the ways to stop it from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from tests.spark import QUICK_JVM
from tests.waiting import HANG_S, wait_for


class Running:
    """``anabranch run`` as a process, as a terminal would start it: in a process group of its own."""

    def __init__(self, query: Path, state: Path, *options: str, failpoint: str = "") -> None:
        command = [sys.executable, "-m", "anabranch.cli", "run", str(query), "--state", str(state), *options]
        command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env=os.environ | {"ANABRANCH_FAILPOINT": failpoint},
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

    def wait_address(self) -> str:
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.lines):
                if match := re.fullmatch(r"address: (\S+)", line):
                    return match[1]
            time.sleep(0.1)
        raise AssertionError(f"no address: {self.lines} {self.errors}")

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

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


@contextmanager
def running(query: Path, state: Path, *options: str, failpoint: str = "") -> Iterator[Running]:
    node = Running(query, state, *options, failpoint=failpoint)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
        node.wait_end()

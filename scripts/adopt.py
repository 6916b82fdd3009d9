"""Runs a command, and is the parent of all that comes of it: a process whose own parent dies is adopted.

So it can say what nobody else can: all the processor time that the command took, and which processes are still there
when it has ended. Such a process is named, with the test that started it, and killed, and the command has failed.

SIGTERM ends the command as Ctrl-C does; what has not ended by itself after a minute is killed.

    python scripts/adopt.py FILE COMMAND...     FILE is for the processor time, in seconds
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from anabranch.bench.processes import kill_tree, tree

ENDING_S = 20.0
"""For processes that were told to end, and have not quite."""

CLEANING_UP_S = 60.0
"""For a command that was interrupted."""

LOOK_S = 0.05

_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


class Adopter:
    """Of one command, which begins at once."""

    def __init__(self, command: list[str]) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)
        self._is_interrupted = False
        self._command = subprocess.Popen(command)
        signal.signal(signal.SIGTERM, self._interrupt)
        signal.signal(signal.SIGALRM, lambda *_: kill_tree(self._command.pid))

    def run(self) -> int:
        """The exit code of the command, or 1 if something outlived it."""
        code = self._wait_ended()
        left = [] if self._is_interrupted else self._left_over()
        if left:
            print("\nSTILL RUNNING after the tests:", *(f"  {_described(pid)}" for pid in left), sep="\n", flush=True)
        self._kill_all()
        return code or int(bool(left))

    def _wait_ended(self) -> int:
        while True:
            pid, status = os.wait()
            if pid == self._command.pid:
                return os.waitstatus_to_exitcode(status)

    def _left_over(self) -> list[int]:
        deadline = time.monotonic() + ENDING_S
        while (below := _below()) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return below

    def _kill_all(self) -> None:
        while below := _below():
            for pid in below:
                kill_tree(pid)

    def _interrupt(self, *_: object) -> None:
        self._is_interrupted = True
        self._command.send_signal(signal.SIGINT)
        signal.alarm(int(CLEANING_UP_S))


def _below() -> list[int]:
    """All that is below this process and has not ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    return tree(os.getpid())[1:]


def _described(pid: int) -> str:
    with suppress(OSError):
        process = Path("/proc", str(pid))
        command = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        environment = process.joinpath("environ").read_bytes().decode(errors="replace").split("\0")
        test = next((each.partition("=")[2] for each in environment if each.startswith("PYTEST_CURRENT_TEST=")), "")
        return f"{pid}, started by {test or 'no test'}: {command[:300]}"
    return f"{pid}, which has just ended"


def main() -> int:
    file, *command = sys.argv[1:]
    code = Adopter(command).run()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).write_text(f"{used.ru_utime + used.ru_stime:.1f}")
    return code


if __name__ == "__main__":
    sys.exit(main())

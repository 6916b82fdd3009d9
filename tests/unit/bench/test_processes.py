"""Processor time and memory of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from anabranch.bench.processes import (
    ALL,
    JVM,
    PYTHON,
    WORKERS,
    Peaks,
    cpu_seconds,
    jvm_of,
    kill_tree,
    memory_bytes,
    threads,
    tree,
)
from tests.waiting import HANG_S

BUSY = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint(flush=True); input()"
LARGE = "data = bytearray(64 << 20); data[::4096] = b'x' * len(data[::4096]); print(flush=True); input()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


@pytest.fixture
def start() -> Iterator[object]:
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str) -> int:
        """A process with a child that runs the code; returns when the child has said that it is done."""
        process = subprocess.Popen([sys.executable, "-c", PARENT, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield run
    for process in started:
        process.communicate(b"\n\n\n", timeout=HANG_S)


def test_the_time_of_a_child_counts(start) -> None:  # type: ignore[no-untyped-def]
    seconds = cpu_seconds(start(BUSY))
    assert 0.4 < seconds[WORKERS] < seconds[ALL] < 3
    assert seconds[JVM] == 0


def test_the_memory_of_a_child_counts_and_its_peak_is_kept(start) -> None:  # type: ignore[no-untyped-def]
    pid = start(LARGE)
    assert len(tree(pid)) == 2
    sizes = memory_bytes(pid)
    assert 64 << 20 < sizes[PYTHON] == sizes[ALL] < 128 << 20
    assert (sizes[JVM], jvm_of(pid)) == (0, None)
    with Peaks(pid) as peaks:
        while not peaks.bytes:
            time.sleep(0.01)
    assert peaks.bytes[ALL] > 64 << 20


def test_the_threads_of_a_process_are_counted(start) -> None:  # type: ignore[no-untyped-def]
    code = "import threading; [threading.Thread(target=input).start() for _ in '12']; print(flush=True); input()"
    pid = start(code)
    assert (threads(pid), threads(tree(pid)[1])) == (1, 3)


def test_a_killed_process_takes_its_children_with_it(start) -> None:  # type: ignore[no-untyped-def]
    pid = start(BUSY)
    child = tree(pid)[1]
    kill_tree(pid)
    assert memory_bytes(child)[ALL] == 0


def test_a_process_that_is_gone_has_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert memory_bytes(process.pid)[ALL] == 0
    assert cpu_seconds(process.pid)[ALL] == 0
    assert threads(process.pid) == 0
    assert os.getpid() in tree(os.getpid())

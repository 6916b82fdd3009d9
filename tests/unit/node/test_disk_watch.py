"""Whether a host may take rows in: asked by every push, looked up now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.node.disk_watch import AGAIN_S, DiskWatch


class Disk:
    def __init__(self) -> None:
        self.free = 100
        self.looks = 0

    def free_bytes(self) -> int:
        self.looks += 1
        return self.free


def test_pushes_that_come_at_once_ask_the_file_system_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("anabranch.node.disk_watch.time.monotonic", lambda: now_s[0])
    disk = Disk()
    watch = DiskWatch(Path("state"), disk.free_bytes, 50)
    assert [watch.why_no_intake() for _ in range(10)] == [None] * 10
    assert disk.looks == 1
    disk.free = 10
    now_s[0] += AGAIN_S
    assert "below the reserve" in (watch.why_no_intake() or "")
    disk.free = 100
    assert watch.why_no_intake() is not None
    now_s[0] += AGAIN_S
    assert watch.why_no_intake() is None


def test_who_could_not_write_is_believed_at_once() -> None:
    watch = DiskWatch(Path("state"), Disk().free_bytes, 50)
    assert watch.why_no_intake() is None
    watch.is_full(OSError("no space left"))
    assert watch.stopped == "no space left"

"""What the JVM of a process says: read once, without what every start says, and never more than a bounded file."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine import jvm


@pytest.fixture
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "messages"
    monkeypatch.setattr(jvm, "_messages", path)
    monkeypatch.setattr(jvm, "_read_bytes", 0)
    monkeypatch.setattr(jvm, "_unfinished", b"")
    return path


def test_without_a_jvm_there_is_nothing_to_read(messages: Path) -> None:
    assert jvm.new_messages() == []


def test_each_line_is_read_once_and_noise_never(messages: Path) -> None:
    with messages.open("a") as file:
        file.write('WARNING: Using incubator modules: jdk.incubator.vector\nSetting default log level to "OFF".\n')
        file.write("java.lang.OutOfMemoryError: Java heap space\n")
        file.flush()
        assert jvm.new_messages() == ["java.lang.OutOfMemoryError: Java heap space"]
        assert jvm.new_messages() == []
        file.write("again\n")
        file.flush()
        assert jvm.new_messages() == ["again"]


def test_a_worker_whose_reader_has_gone_is_no_news(messages: Path) -> None:
    gone = 'Traceback (most recent call last):\n  File "daemon.py", line 264, in manager\nBrokenPipeError: [Errno 32]\n'
    other = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\nValueError: z\n'
    messages.write_text(gone + other + gone)
    assert jvm.new_messages() == other.splitlines()


@pytest.mark.parametrize("order", ["aaabbb", "abbbaa", "ababab", "aabbab"])
def test_workers_whose_readers_have_gone_may_speak_at_the_same_time(messages: Path, order: str) -> None:
    lines = ("Traceback (most recent call last):", "  File d.py", "BrokenPipeError: x")
    workers = {"a": iter(lines), "b": iter(lines)}
    text = ""
    for worker in order:
        text += f"{next(workers[worker])}\n"
        messages.write_text(text)
        assert jvm.new_messages() == []
    messages.write_text(f"{text}done\n")
    assert jvm.new_messages() == ["done"]


@pytest.mark.parametrize("cut", [10, 35, 50, 84])
def test_a_traceback_that_is_read_while_it_is_written_is_judged_as_a_whole(messages: Path, cut: int) -> None:
    gone = 'Traceback (most recent call last):\n  File "daemon.py", line 264, in manager\nBrokenPipeError: [Errno 32]\n'
    messages.write_text(f"first\n{gone[:cut]}")
    assert [jvm.new_messages() for _ in range(2)] == [["first"], []]
    messages.write_text(f"first\n{gone}")
    assert jvm.new_messages() == []


def test_a_traceback_that_never_ends_is_told_after_a_while(messages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\n'
    messages.write_text(text)
    assert [jvm.new_messages() for _ in range(3)] == [[], [], []]
    monkeypatch.setattr(jvm, "UNFINISHED_S", 0.0)
    assert [jvm.new_messages() for _ in range(2)] == [text.splitlines(), []]


def test_java_tells_what_it_threw_and_not_from_where(messages: Path) -> None:
    messages.write_text("java.lang.Error: a\n\tat a.b.C.d(C.scala:87)\nCaused by: java.lang.Error: b\n\t... 34 more\n")
    assert jvm.new_messages() == ["java.lang.Error: a", "Caused by: java.lang.Error: b"]


def test_what_was_read_does_not_fill_the_disk(messages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "MESSAGES_BYTES", 10)
    with messages.open("a") as file:
        for text in ("a long message", "another"):
            file.write(f"{text}\n")
            file.flush()
            assert jvm.new_messages() == [text]
    assert messages.stat().st_size <= 10

"""Which archive of classes belongs to which Java and PySpark."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine import archive


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(archive, "DIRECTORY", tmp_path / "archives")
    return home


def test_another_java_has_another_archive(java: Path) -> None:
    first = archive.archive()
    assert archive.archive() == first
    (java / "release").write_text('JAVA_VERSION="17.0.2"')
    assert archive.archive() != first


def test_a_jvm_uses_the_archive_that_is_there(java: Path) -> None:
    assert archive.using() == ""
    archive.archive().parent.mkdir()
    archive.archive().touch()
    assert f"-XX:SharedArchiveFile={archive.archive()}" in archive.using()


def test_without_any_java_there_is_still_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert archive.archive().suffix == ".jsa"


def test_a_java_without_an_archive_of_its_own_can_have_none(java: Path) -> None:
    assert not archive.can_be_made()
    (java / "lib" / "server").mkdir(parents=True)
    (java / "lib" / "server" / "classes.jsa").touch()
    assert archive.can_be_made()

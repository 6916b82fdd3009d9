"""The jar that the package brings to Spark is what its sources say, and a JRE is enough to make it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from anabranch.engine import archive, connector

ROOT = Path(__file__).parents[3]
NO_COMPILER = "--limit-modules=java.base,java.logging,java.management,java.naming,java.sql,java.xml"
"""A JVM in which there is no javac, also where a JDK is installed."""

OPTIONS = (NO_COMPILER, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""It is done before the JVM's full compiler pays."""


def test_the_jar_of_the_package_is_made_of_these_sources(tmp_path: Path) -> None:
    made = tmp_path / "made.jar"
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "connector.py", made, *(f"--java-option={each}" for each in OPTIONS)],
        check=True,
    )
    assert made.read_bytes() == connector.JAR.read_bytes(), "jvm/ has changed: run `make connector`"


def test_a_jar_names_its_release_and_holds_a_class_for_each_source() -> None:
    with zipfile.ZipFile(connector.JAR) as jar:
        names = set(jar.namelist())
    sources = {path.relative_to(ROOT / "jvm").with_suffix(".class").as_posix() for path in ROOT.glob("jvm/**/*.java")}
    assert names == {"META-INF/MANIFEST.MF", *sources}
    assert len(connector.release()) == 16


def test_another_connector_has_another_class_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive.archive()
    monkeypatch.setattr(connector, "digest", lambda: "another")
    assert archive.archive() != before

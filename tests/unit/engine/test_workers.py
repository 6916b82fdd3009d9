"""Spark's Python workers take PySpark from where it is installed, not from the archive of its sources."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from anabranch.engine import workers

ARCHIVE = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def run(script: Path, path: str | None) -> tuple[str | None, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = path
    code = "import os, pyspark; print(repr((os.environ.get('PYTHONPATH'), pyspark.__file__)))"
    said = subprocess.run([script, "-c", code], env=environment, capture_output=True, text=True, check=True)
    found: tuple[str | None, str] = ast.literal_eval(said.stdout)
    return found


@pytest.mark.parametrize("path", ["{archive}", "{archive}:/b", "/a:{archive}", "/a:{archive}:/b c"])
def test_the_archive_is_taken_out_of_the_path_wherever_it_stands(tmp_path: Path, path: str) -> None:
    assert ARCHIVE.exists(), "Spark gives its workers another path now"
    found, where = run(workers.script(tmp_path), path.format(archive=ARCHIVE))
    assert found == ":".join(part for part in path.split(":") if part != "{archive}")
    assert where == pyspark.__file__


@pytest.mark.parametrize("path", [None, "", "/a", "/a/pyspark.zip:/b"])
def test_any_other_path_stays_as_it_is(tmp_path: Path, path: str | None) -> None:
    assert run(workers.script(tmp_path), path)[0] == path


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "it's a $HOME"
    odd.mkdir()
    assert run(workers.script(odd), str(ARCHIVE))[1] == pyspark.__file__


def test_where_nothing_may_be_executed_python_itself_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert workers.script(tmp_path) == Path(sys.executable)


@pytest.mark.parametrize(("said", "elsewhere"), [(None, False), (None, True), ("/opt/python", False)])
def test_what_the_user_has_said_rules_and_the_environment_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, elsewhere: bool
) -> None:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    if said is None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", said)
    with workers.chosen(tmp_path, elsewhere=elsewhere):
        expected = said or (sys.executable if elsewhere else str(tmp_path / "python"))
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == expected
    assert os.environ.get("PYSPARK_PYTHON") == said
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ

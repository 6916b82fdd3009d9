"""The Python of Spark's workers: this process's own, with PySpark from where it is installed.

Spark gives its workers a path that begins with an archive of PySpark's sources, for machines that have none. Python
keeps no compiled code of what is in an archive: every process compiles PySpark anew, which takes two thirds of its
start. Only boxes that work in order have Python workers.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

_VARIABLES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_ARCHIVE: Final = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"

_SCRIPT: Final = """#!/bin/sh
archive={archive}
case ":$PYTHONPATH:" in
*":$archive:"*)
  path=":$PYTHONPATH:"
  path="${{path%%":$archive:"*}}:${{path#*":$archive:"}}"
  path="${{path#:}}"
  export PYTHONPATH="${{path%:}}"
  ;;
esac
exec {python} "$@"
"""


@contextmanager
def chosen(scratch: Path, *, elsewhere: bool) -> Iterator[None]:
    """While Spark starts, it is told which Python its workers run, unless the user has said so.

    Workers ``elsewhere`` run on machines that need not have PySpark, nor our directory.
    """
    before = {name: os.environ.get(name) for name in _VARIABLES}
    said = before["PYSPARK_PYTHON"] or (sys.executable if elsewhere else str(script(scratch)))
    try:
        os.environ["PYSPARK_PYTHON"] = said
        os.environ["PYSPARK_DRIVER_PYTHON"] = before["PYSPARK_DRIVER_PYTHON"] or said
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def script(scratch: Path) -> Path:
    """A program that runs this process's Python without the archive; that Python, where programs may not lie."""
    path = scratch / "python"
    path.write_text(_SCRIPT.format(archive=shlex.quote(str(_ARCHIVE)), python=shlex.quote(sys.executable)))
    path.chmod(0o700)
    return path if os.access(path, os.X_OK) else Path(sys.executable)  # a directory where nothing may be executed

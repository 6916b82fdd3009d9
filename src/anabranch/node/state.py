"""The state directory of a node: what lies where, whose it is, and who holds it.

    node.json           format, the diagram that everything here belongs to, without its feeds and writers, the digests
                        of the tables that it reads and of the modules that it calls, which part of it the node does,
                        and the life that began with the directory
    lock                held while a node runs on the directory
    sources/NAME.db     lanes, log and late log of a source: one transaction domain each
    inlets/NAME.db      the journal of a stream that other nodes make, and what its inlet knows of their copies
    stages/NAME.db      the logs that one Spark query writes, and its batch ledger
    …/NAME.db-bodies/   the large bodies of their segments
    checkpoints/NAME/   Spark's own checkpoint of that query
    lent/               what is being given to a peer that is rebuilt from this node
    arriving/           what has come so far from the peer that this node is rebuilt from
    arrived/            all of it: it takes the place of the rest, now or at the next start

A directory that is not ours, belongs to another query or is in use is refused before anything in it is touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from anabranch import failpoints
from anabranch.errors import StateError
from anabranch.node.functions import digests
from anabranch.node.part import Part
from anabranch.query.boxes import Diagram
from anabranch.query.text import diagram_to_dict
from anabranch.syncing import sync

FORMAT: Final = 2


class StateDirectory:
    """An open state directory; ``close`` lets others have it."""

    def __init__(self, path: Path, diagram: Diagram, part: Part, tables: Mapping[str, str] | None = None) -> None:
        """``tables`` are the digests of the tables that the node reads."""
        self.path: Final = path
        self.life = ""
        self._mine = _facts(diagram, part, tables or {})
        self.is_new = not (path / "node.json").exists()
        self._lock: IO[str] | None = None
        _refuse_foreign(path)
        try:
            for name in _PARTS:
                (path / name).mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(path)
            self._take_arrived()
            self._remove_leftovers()
            self._claim()
        except OSError as error:
            self.close()
            raise StateError(
                f"The state directory {path} cannot be used: {error.strerror or error}.",
                remedy="Give a directory that this user may write, with free space.",
            ) from error
        except StateError:
            self.close()
            raise

    def source_file(self, source: str) -> Path:
        return self.path / "sources" / f"{source}.db"

    def inlet_file(self, stream: str) -> Path:
        return self.path / "inlets" / f"{stream}.db"

    def stage_file(self, stage: str) -> Path:
        return self.path / "stages" / f"{stage}.db"

    def checkpoint(self, stage: str) -> Path:
        return self.path / "checkpoints" / stage

    def free_bytes(self) -> int:
        """Asked for at every push, so nothing else is."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def discard(self) -> None:
        """Makes it an empty directory again: the marker goes last, so that a kill in between leaves it claimed."""
        for name in _PARTS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "node.json").unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- being rebuilt, and helping a peer -------------------------------------------------------------------------

    @property
    def belongs_to(self) -> dict[str, Any]:
        """Whose state it is, all but the life: a node can be rebuilt from one whose state belongs to the same."""
        return self._mine

    @property
    def lent(self) -> Path:
        """Where what is given to peers is gathered. It is removed at the next start."""
        return self.path / "lent"

    def arriving(self) -> Path:
        """An empty directory for the state of a peer."""
        directory = self.path / "arriving"
        shutil.rmtree(directory, ignore_errors=True)
        for name in _PARTS:
            (directory / name).mkdir(parents=True)
        return directory

    def install(self, life: str) -> None:
        """What has arrived, and is durable, becomes the state of this node, in a new life.

        The renaming decides: a node that is killed before it has what it had, and one that is killed later goes on
        with the installation when it starts.
        """
        _write_durably(self.path / "arriving" / "node.json", self._text(life))
        failpoints.reach("rebuild.arrived")
        (self.path / "arriving").rename(self.path / "arrived")
        sync(self.path)
        failpoints.reach("rebuild.decided")
        self._take_arrived()
        self.life = life

    def _take_arrived(self) -> None:
        """Can be done again from wherever it was interrupted: what is in its place is no longer in ``arrived``."""
        arrived = self.path / "arrived"
        if not arrived.exists():
            return
        for name in _PARTS:
            if (arrived / name).exists():
                shutil.rmtree(self.path / name, ignore_errors=True)
                (arrived / name).rename(self.path / name)
                failpoints.reach("rebuild.installing")
        if (arrived / "node.json").exists():
            (arrived / "node.json").rename(self.path / "node.json")
        sync(self.path)
        shutil.rmtree(arrived)

    def _remove_leftovers(self) -> None:
        for name in ("arriving", "lent"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    # --- whose it is -----------------------------------------------------------------------------------------------

    def _text(self, life: str) -> str:
        return json.dumps({**self._mine, "life": life}, indent=1, sort_keys=True)

    def _claim(self) -> None:
        """Writes the diagram into a new directory; in an old one it must be the same."""
        marker = self.path / "node.json"
        if marker.exists():
            self.life = _read_marker(self.path, self._mine)
            return
        self.life = secrets.token_hex(8)
        _write_durably(marker, self._text(self.life))


def check_directory(path: Path, diagram: Diagram, part: Part, tables: Mapping[str, str] | None = None) -> None:
    """Whether a node could run on it now, found out before one is started: ``StateError`` says why not."""
    _refuse_foreign(path)
    if (path / "lock").exists():
        _take_lock(path).close()
    if (path / "node.json").exists():
        _read_marker(path, _facts(diagram, part, tables or {}))


def _facts(diagram: Diagram, part: Part, tables: Mapping[str, str]) -> dict[str, Any]:
    """Whose a directory is."""
    called = digests(diagram, part)
    return {
        **({"tables": dict(tables)} if tables else {}),
        "format": FORMAT,
        "query": diagram_to_dict(diagram.identity()),
        "part": {
            "stages": sorted(stage.name for stage in part.stages),
            "sources": sorted(part.entries),
            "reads": sorted(part.upstream),
        },
        **({"functions": called} if called else {}),
    }


def _read_marker(path: Path, mine: Mapping[str, Any]) -> str:
    """The life that the directory belongs to, if it is of the same part of the same query."""
    marker = path / "node.json"
    try:
        found = json.loads(marker.read_text())
        if not isinstance(found, dict) or (
            found.get("format") == FORMAT and not {"query", "part", "life"} <= found.keys()
        ):
            raise ValueError("it does not say which query it belongs to")
    except (OSError, ValueError) as error:
        raise StateError(
            f"{marker} is damaged: {error}.", remedy="Restore it from a backup, or start with an empty directory."
        ) from error
    if found.get("format") != FORMAT:
        raise StateError(
            f"{path} was written in format {found.get('format')}, this version reads {FORMAT}.",
            remedy="Run it with the version of Anabranch that wrote it.",
        )
    changes = describe_changes(found["query"], mine["query"])
    if changes:
        raise StateError(
            f"{path} holds the state of another query: {'; '.join(changes)}.",
            remedy="A changed query is a new stream: run it on a new state directory, or undo the change.",
        )
    _check_tables(path, found.get("tables", {}), mine.get("tables", {}))
    moved = describe_changes(found["part"], mine["part"])
    if moved:
        raise StateError(
            f"{path} holds the state of another part of the query: {'; '.join(moved)}.",
            remedy="Run a part that was placed anew on a new state directory, or undo the change.",
        )
    changed = [name for name, digest in mine.get("functions", {}).items() if found["functions"].get(name) != digest]
    if changed:
        raise StateError(
            f"{path} holds what another version of the module {' and '.join(changed)} computed.",
            remedy="A changed function makes a new stream: run it on a new state directory, or undo the change.",
        )
    return str(found["life"])


def _check_tables(path: Path, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    changed = [f"{name!r} had {old[name][:16]}, has {new[name][:16]}" for name in old if new.get(name, "") != old[name]]
    if old.keys() == new.keys() and changed:
        raise StateError(
            f"{path} holds the state of a query whose tables had other contents: table {'; table '.join(changed)}.",
            remedy="Put the old contents back, or run with the new ones on a new state directory: what is there was "
            "made with the old ones.",
        )


def describe_changes(old: Any, new: Any, where: str = "") -> list[str]:
    """What differs between two diagrams in their text form, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *[key for key in new if key not in old]]
        return [
            change
            for key in keys
            for change in describe_changes(old.get(key), new.get(key), f"{where}.{key}" if where else str(key))
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [c for number, (a, b) in enumerate(pairs) for c in describe_changes(a, b, f"{where}[{number}]")]
    return [] if old == new else [f"{where} was {_short(old)}, is {_short(new)}"]


def _short(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _refuse_foreign(path: Path) -> None:
    """A directory with files but without our marker belongs to somebody else; nothing in it is touched."""
    if path.exists() and not path.is_dir():
        raise StateError(f"{path} is not a directory.", remedy="Give another --state.")
    if path.is_dir() and not (path / "node.json").exists():
        strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _OURS)
        strangers += sorted(
            f"{name}/{entry.name}" for name in _PARTS if (path / name).is_dir() for entry in (path / name).iterdir()
        )
        if strangers:
            raise StateError(
                f"{path} is not a state directory of Anabranch: it holds {', '.join(strangers[:5])} and no node.json.",
                remedy="Give an empty or new directory.",
            )


_PARTS: Final = ("sources", "inlets", "stages", "checkpoints")
_OURS: Final = frozenset({"lock", "node.json.new", *_PARTS})
"""What a node that was killed during its very first start may have left; the parts are empty until node.json is
there."""


def _take_lock(path: Path) -> IO[str]:
    lock = (path / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise StateError(
            f"Another node (process {holder}) runs on the state directory {path}.",
            remedy="Stop it first, or give this one its own --state.",
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _write_durably(path: Path, text: str) -> None:
    """All of the file or nothing, also after a power loss."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    sync(path.parent)

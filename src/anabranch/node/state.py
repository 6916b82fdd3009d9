"""The state directory of a host: what lies where, whose it is, and who holds it.

    host.json                  the format of all that lies here
    lock                       held while a host runs on the directory
    queries/NAME/              one for each query that the host runs or has run: they share nothing
        entry/                 of its parts (``query.parts``), which share nothing either: the entry points,
        replicas/STAGE/        the stages that the same hosts run, by the first of them,
        writers/               and the writers of outputs that other hosts make; each with

    query.json                 the diagram that everything here belongs to, without its feeds and writers, the digests
                               of the tables that it reads and of the modules that it calls, which part of it this is,
                               and the life that began with the directory
    sources/NAME.db            lanes, log and late log of a source: one transaction domain each
    inlets/NAME.db             the journal of a stream that other parts make, and what its inlet knows of their copies
    stages/NAME.db             the logs that one Spark query writes, and its batch ledger
    …/NAME.db-bodies/          the large bodies of their segments
    checkpoints/NAME/          Spark's own checkpoint of that query
    lent/                      what is being given to a peer that is rebuilt from this replica
    arriving/                  what has come so far from the peer that this replica is rebuilt from
    arrived/                   all of it: it takes the place of the rest, now or at the next start

A directory that is not ours, belongs to another query or is in use is refused before anything in it is touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from anabranch import failpoints
from anabranch.errors import StateError
from anabranch.node.functions import digests
from anabranch.node.tables import read_by
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import parts
from anabranch.query.text import diagram_to_dict
from anabranch.syncing import sync

FORMAT: Final = 4


class StateDirectory:
    """An open state directory; ``close`` lets others have it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._lock: IO[str] | None = None
        _refuse_foreign(path)
        with _usable(path, self.close):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(path)
            marker = path / _MARKER
            if not marker.exists():
                _write_durably(marker, json.dumps({"format": FORMAT}))

    def parts(self, cut: Sequence[AssignedQuery], tables: Mapping[str, str] | None = None) -> list[QueryDirectory]:
        """Where the parts of a query have their state; ``tables`` are the digests of the tables that the host reads
        for it."""
        for part in cut[:1]:
            _refuse_other_parts(self.path / _QUERIES / part.query, cut)
        return [
            QueryDirectory(self.path / _QUERIES / part.query / _place_of(part), part, read_by(part, tables or {}))
            for part in cut
        ]

    def free_bytes(self) -> int:
        return _free_bytes(self.path)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class QueryDirectory:
    """The state of one part of a query, in the directory of a host that is open."""

    def __init__(self, path: Path, part: AssignedQuery, tables: Mapping[str, str] | None = None) -> None:
        self.path: Final = path
        self.life = ""
        self._mine = _facts(part, tables or {})
        self.is_new = not (path / _QUERY).exists()
        with _usable(path, lambda: None):
            for name in _PARTS:
                (path / name).mkdir(parents=True, exist_ok=True)
            self._take_arrived()
            self._remove_leftovers()
            self._claim()

    def source_file(self, source: str) -> Path:
        return self.path / "sources" / f"{source}.db"

    def inlet_file(self, stream: str) -> Path:
        return self.path / "inlets" / f"{stream}.db"

    def stage_file(self, stage: str) -> Path:
        return self.path / "stages" / f"{stage}.db"

    def checkpoint(self, stage: str) -> Path:
        return self.path / "checkpoints" / stage

    def free_bytes(self) -> int:
        return _free_bytes(self.path)

    def discard(self) -> None:
        """Makes it an empty directory again: the marker goes last, so that a kill in between leaves it claimed."""
        for name in _PARTS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / _QUERY).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # other parts lie there
            for above in self.path.parents[: 2 if self.path.parent.name == _REPLICAS else 1]:
                above.rmdir()

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
        _write_durably(self.path / "arriving" / _QUERY, self._text(life))
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
        if (arrived / _QUERY).exists():
            (arrived / _QUERY).rename(self.path / _QUERY)
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
        marker = self.path / _QUERY
        if marker.exists():
            self.life = _read_marker(self.path, self._mine)
            return
        self.life = secrets.token_hex(8)
        _write_durably(marker, self._text(self.life))


def _free_bytes(path: Path) -> int:
    """Asked for at every push, so nothing else is."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def check_directory(path: Path, queries: Iterable[tuple[AssignedQuery, Mapping[str, str]]]) -> None:
    """Whether a host could run these queries on it now, found out before one is started: ``StateError`` says why
    not. With each come the digests of its tables."""
    _refuse_foreign(path)
    if (path / "lock").exists():
        _take_lock(path).close()
    for whole, tables in queries:
        cut, directory = parts(whole), path / _QUERIES / whole.query
        _refuse_other_parts(directory, cut)
        for part in cut:
            if (directory / _place_of(part) / _QUERY).exists():
                _read_marker(directory / _place_of(part), _facts(part, read_by(part, tables)))


def _place_of(part: AssignedQuery) -> Path:
    """Where a part lies in the directory of its query."""
    if part.stages:
        return Path(_REPLICAS, part.stages[0].name)
    return Path(_ENTRY if part.entries else _WRITERS)


def _refuse_other_parts(directory: Path, cut: Sequence[AssignedQuery]) -> None:
    """What lies here of parts that this host does not run is not silently left behind."""
    places = [directory / _ENTRY, directory / _WRITERS, *(directory / _REPLICAS).glob("*")]
    held = {place.relative_to(directory) for place in places if (place / _QUERY).exists()}
    strange = sorted(held - {_place_of(part) for part in cut})
    if strange:
        _check_query(directory, _stored_facts(directory / strange[0]), _facts(cut[0], {}))
        raise StateError(
            f"{directory} holds the state of another part of the query: {', '.join(map(str, strange))}.",
            remedy="Run a part that was placed anew on a new state directory, or undo the change.",
        )


def _facts(part: AssignedQuery, tables: Mapping[str, str]) -> dict[str, Any]:
    """Whose a directory is."""
    called = digests(part)
    return {
        **({"tables": dict(tables)} if tables else {}),
        **({"functions": called} if called else {}),
        "format": FORMAT,
        "query": diagram_to_dict(part.diagram.identity()),
        "part": {
            "stages": sorted(stage.name for stage in part.stages),
            "sources": sorted(part.entries),
            "reads": sorted(part.upstream),
        },
    }


def _read_marker(path: Path, mine: Mapping[str, Any]) -> str:
    """The life that the directory belongs to, if it is of the same part of the same query."""
    found = _stored_facts(path)
    _check_query(path, found, mine)
    _check_tables(path, found.get("tables", {}), mine.get("tables", {}))
    moved = describe_changes(found["part"], mine["part"])
    if moved:
        raise StateError(
            f"{path} holds the state of another part of the query: {'; '.join(moved)}.",
            remedy="Run a part that moved on a new state directory, or undo the change.",
        )
    changed = [name for name, digest in mine.get("functions", {}).items() if found["functions"].get(name) != digest]
    if changed:
        raise StateError(
            f"{path} holds results of a different version of the module {' and '.join(changed)}.",
            remedy="A changed function makes a new stream: run it on a new state directory, or undo the change.",
        )
    return str(found["life"])


def _stored_facts(path: Path) -> dict[str, Any]:
    """Whose a directory says that it is."""
    marker = path / _QUERY
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
        raise _other_format(path, found.get("format"))
    return found


def _check_query(path: Path, found: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    changes = describe_changes(found["query"], mine["query"])
    if changes:
        raise StateError(
            f"{path} holds the state of another query: {'; '.join(changes)}.",
            remedy="A changed query is a new stream: run it on a new state directory, or undo the change.",
        )


def _check_tables(path: Path, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    changed = [f"{name!r} had {old[name][:16]}, has {new[name][:16]}" for name in old if new.get(name, "") != old[name]]
    if old.keys() == new.keys() and changed:
        raise StateError(
            f"{path} holds the state of a query whose tables had different contents: table {'; table '.join(changed)}.",
            remedy="Put the old contents back, or run with the new ones on a new state directory: the present "
            "results come from the old ones.",
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
    if (path / _OLD_MARKER).exists():
        raise _other_format(path, _format_of(path / _OLD_MARKER))
    if (path / _MARKER).exists():
        found = _format_of(path / _MARKER)
        if found != FORMAT:
            raise _other_format(path, found)
    elif path.is_dir():
        strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _OURS)
        if strangers:
            raise StateError(
                f"{path} is not a state directory of Anabranch: it holds {', '.join(strangers[:5])} and no {_MARKER}.",
                remedy="Give an empty or new directory.",
            )


def _format_of(marker: Path) -> object:
    try:
        found = json.loads(marker.read_text())
        if not isinstance(found, dict) or "format" not in found:
            raise ValueError("it does not state its format")
    except (OSError, ValueError) as error:
        raise StateError(
            f"{marker} is damaged: {error}.", remedy="Restore it from a backup, or start with an empty directory."
        ) from error
    return found["format"]


def _other_format(path: Path, found: object) -> StateError:
    return StateError(
        f"{path} was written in format {found}, this version reads {FORMAT}.",
        remedy="Run it with the version of Anabranch that wrote it, or start with an empty directory.",
    )


@contextmanager
def _usable(path: Path, close: Callable[[], None]) -> Iterator[None]:
    """What the system refuses is an error of the directory; whatever goes wrong, it is closed."""
    try:
        yield
    except OSError as error:
        close()
        raise StateError(
            f"The state directory {path} cannot be used: {error.strerror or error}.",
            remedy="Give a directory that this user can write to, with free space.",
        ) from error
    except StateError:
        close()
        raise


_MARKER: Final = "host.json"
_OLD_MARKER: Final = "node.json"
"""Of the formats in which a directory held one query."""

_QUERY: Final = "query.json"
_QUERIES: Final = "queries"
_ENTRY, _REPLICAS, _WRITERS = "entry", "replicas", "writers"
_PARTS: Final = ("sources", "inlets", "stages", "checkpoints")
_OURS: Final = frozenset({"lock", f"{_MARKER}.new"})
"""What a host that was killed during its very first start may have left."""


def _take_lock(path: Path) -> IO[str]:
    lock = (path / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise StateError(
            f"Another node (process {holder}) is using the state directory {path}.",
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

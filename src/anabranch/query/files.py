"""Loading a query from a file: YAML, SQL, or a Python program that builds one.

A program is run, as any Python program would be; only load files that you would run.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from anabranch.errors import AnabranchError, ConfigError
from anabranch.query.boxes import Python
from anabranch.query.builder import Query
from anabranch.query.translate import sql

PREFERRED: Final = "query"
"""The name that chooses among several queries of one program."""
RUN_NAME: Final = "__anabranch__"
"""What ``__name__`` is while a program is loaded: what it does under ``"__main__"`` is not done."""


def load(path: str | Path) -> Query:
    """The query in a file, not validated yet."""
    path = Path(path)
    loaders = {".yaml": _load_yaml, ".yml": _load_yaml, ".sql": _load_sql, ".py": _load_program}
    if path.suffix.lower() not in loaders:
        raise ConfigError(f"{path} is not a query file.", remedy="Give a .py, .sql, .yaml or .yml file.")
    try:
        query = loaders[path.suffix.lower()](path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.", remedy="Check the path.") from error
    query.directory = path.resolve().parent
    if any(isinstance(box, Python) for box in query.diagram().boxes):
        _search_beside(path)
    return query


def _search_beside(path: Path) -> None:
    """Functions of Python boxes may lie beside the query. They are called as long as it runs, so the directory stays,
    behind all others: it must not hide what is installed."""
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.append(directory)


def _load_yaml(path: Path) -> Query:
    return Query.from_yaml(path.read_text(encoding="utf-8"), place=str(path))


def _load_sql(path: Path) -> Query:
    """SQL has no place for the name of the query: it is that of the file."""
    return sql(path.read_text(encoding="utf-8"), name=path.stem)


def _load_program(path: Path) -> Query:
    path.read_bytes()  # a missing file is not an error of the program
    try:
        with _importable(path.resolve().parent):
            names = runpy.run_path(str(path), run_name=RUN_NAME)
    except AnabranchError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(_story(path, error), remedy="Correct the program.") from error
    return _choose(path, {name: value for name, value in names.items() if isinstance(value, Query)})


def _choose(path: Path, queries: dict[str, Query]) -> Query:
    if PREFERRED in queries:
        return queries[PREFERRED]
    if not queries:
        raise ConfigError(f"{path} defines no query.", remedy='Write q = anabranch.Query("name") in it.')
    if len({id(query) for query in queries.values()}) > 1:
        names = ", ".join(queries)
        raise ConfigError(f"{path} defines several queries: {names}.", remedy=f"Name the one to load `{PREFERRED}`.")
    return next(iter(queries.values()))


def _story(path: Path, error: BaseException) -> str:
    """What went wrong in the program, and on which of its own lines."""
    if isinstance(error, SyntaxError):
        line = f", line {error.lineno}" if error.lineno else ""
        return f"{path}{line}: {error.msg}."
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    return f"{where}: {type(error).__name__}: {error}."


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Lets a program import the modules beside it, as it can when it is run by itself."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))

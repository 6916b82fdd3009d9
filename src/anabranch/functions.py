"""Functions of users, which Python boxes call: found by name, called on Arrow batches, held to what a box declares.

A query names a function, ``module:function``, and never carries its code. Every host and every worker of Spark imports
the module by itself, from its own path or from beside the query file; a digest of the module's source says whether they
have the same. Nothing here knows Spark or queries: Spark's workers load this module.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from anabranch.errors import ConfigError, with_article

_BESIDE: Final = "Put {module}.py beside the query file, or install it where the host runs."
Call = Callable[[pa.RecordBatch], Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A function that is there: what to call, where its module was found, and a digest of the module's source."""

    call: Call
    root: str
    digest: str


def find(name: str) -> Found:
    """The function called ``module:function``. ConfigError says what is missing, and what to change."""
    module_name, _, path = name.partition(":")
    module = _imported(name, module_name)
    try:
        call = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        where = getattr(module, "__file__", None) or "the module"
        raise ConfigError(
            f"{name}: {where} has no {path!r}.", remedy="Define the function, or correct its name."
        ) from error
    if not callable(call):
        raise ConfigError(
            f"{name} is {with_article(type(call).__name__)}.", remedy="Name a function that takes a RecordBatch."
        )
    return Found(call, _root(module), _digest(module))


def located(name: str) -> tuple[str, str]:
    """Where the module of a function is, and a digest of its source, for workers; nothing, if it is not here: then
    whoever calls the function tells so."""
    try:
        found = find(name)
    except ConfigError:
        return "", ""
    return found.root, found.digest


def find_again(name: str, root: str, digest: str) -> Found:
    """The same function in another process: where it was found, unless that process has the module elsewhere."""
    if root and root not in sys.path:
        sys.path.append(root)
    found = find(name)
    if found.digest != digest:
        raise ConfigError(
            f"{name}: this worker has a different version of the module than the host, in {found.root or 'its path'}.",
            remedy="Give all machines the same one, and restart the host after a change.",
        )
    return found


def called(box: str, name: str, call: Call, batch: pa.RecordBatch, made: pa.Schema) -> list[pa.Array]:
    """The columns that a function makes of a batch; ConfigError if it fails, or returns something else than the box
    declares."""
    try:
        returned = call(batch)
    except Exception as error:
        message = f"Box {box}: {name} raised {type(error).__name__}: {error}{_place(error)}."
        raise ConfigError(message, remedy="Correct the function, or filter out such rows before it.") from error
    return [
        _checked(box, name, each, field, len(batch))
        for each, field in zip(_columns(box, name, returned, made), made, strict=True)
    ]


def _columns(box: str, name: str, returned: Any, made: pa.Schema) -> list[Any]:
    """What was returned, as one array for each column."""
    if isinstance(returned, pa.Array | pa.ChunkedArray) and len(made) == 1:
        return [returned]
    wanted = f"a RecordBatch or Table with the columns {', '.join(made.names)}"
    if not isinstance(returned, pa.RecordBatch | pa.Table):
        wanted += ", or an Array" if len(made) == 1 else ""
        raise ConfigError(f"Box {box}: {name} returned a {type(returned).__name__}.", remedy=f"Return {wanted}.")
    if sorted(returned.schema.names) != sorted(made.names):
        names = ", ".join(returned.schema.names) or "no columns"
        raise ConfigError(f"Box {box}: {name} returned {names}.", remedy=f"Return {wanted}, or declare others.")
    return [returned.column(each) for each in made.names]


def _checked(box: str, name: str, column: Any, field: pa.Field, rows: int) -> pa.Array:
    if len(column) != rows:
        raise ConfigError(
            f"Box {box}: {name} returned {len(column)} values of {field.name} for {rows} rows.",
            remedy="Return one for each row, in the order of the rows; NULL where there is none.",
        )
    if column.type != field.type:
        raise ConfigError(
            f"Box {box}: {name} returned {field.name} as {column.type}, and the box declares {field.type}.",
            remedy="Cast it, or declare the type that it returns.",
        )
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _imported(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{name}: the module needs {error.name!r}, which is not installed.", remedy="Install it on every host."
            ) from error
        raise ConfigError(
            f"{name}: there is no module {error.name!r}.", remedy=_BESIDE.format(module=module)
        ) from error
    except Exception as error:
        message = f"{name}: the module cannot be imported: {type(error).__name__}: {error}{_place(error)}."
        raise ConfigError(message, remedy="Correct the module.") from error


def _root(module: ModuleType) -> str:
    """The directory from which the module was imported; empty if it is part of Python."""
    file = getattr(module, "__file__", None)
    if file is None:
        return ""
    is_package = hasattr(module, "__path__")
    return str(Path(file).resolve().parents[module.__name__.count(".") + is_package])


def _digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _place(error: BaseException) -> str:
    """Where it happened: the last line of the user's own."""
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename != __file__ and "importlib" not in each.filename]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""

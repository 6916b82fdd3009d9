"""What the Tab key offers: query files, files of rows, where to begin, and the streams of a node that answers at once.

A shell asks by running the program with ``_ANABRANCH_COMPLETE`` set; Typer reads the question and calls what is here.
It must be quick and must never fail: without an answer the shell offers files, as it does anyway. No query file is
loaded, because loading a program runs it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any, Final

import typer

from anabranch.errors import AnabranchError

QUERY_SUFFIXES: Final = (".py", ".sql", ".yaml", ".yml")
"""What ``query.files`` loads; it takes too long to import to be asked."""

ANSWER_S: Final = 0.5
"""How long a node may take to name its streams: people who press Tab do not wait."""

_BREAKS: Final = ":="
_QUOTED: Final = frozenset(" \t\n\"'\\$`&|;<>()*?[]{}!#~" + _BREAKS)
"""What a shell would have to quote: it completes such names better itself."""

Complete = Callable[[str], list[str]]


def join_words(environment: MutableMapping[str, str]) -> None:
    """Makes words of a command line whole again: bash cuts them at each ``:`` and ``=``, so also in ``host:port``."""
    if environment.get("_ANABRANCH_COMPLETE") != "complete_bash" or "COMP_WORDS" not in environment:
        return
    last = environment.get("COMP_CWORD", "")
    pieces = environment["COMP_WORDS"].split("\n")[: int(last) + 1 if last.isdigit() else None]
    words: list[str] = []
    open_end = False
    for piece in pieces:
        is_break = piece != "" and set(piece) <= set(_BREAKS)
        if words and (is_break or open_end):
            words[-1] += piece
        else:
            words.append(piece)
        open_end = is_break
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join(words), str(len(words) - 1)


def files(*suffixes: str) -> Complete:
    """Completes to files with one of the suffixes, and to the directories on the way there."""

    def complete(incomplete: str) -> list[str]:
        try:
            return _paths(incomplete, suffixes)
        except OSError:
            return []

    return complete


query_file: Final = files(*QUERY_SUFFIXES)
deployment_file: Final = files(".toml")
query_or_deployment: Final = files(*QUERY_SUFFIXES, ".toml")


def beginning(incomplete: str) -> list[str]:
    """Where a subscription can begin; a position has to be written out."""
    return [word for word in ("start", "end") if word.startswith(incomplete)]


def stream(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The streams of the node whose address stands before; with their query, where it has several."""
    found = _streams(context)
    several = len({info.query for info in found}) > 1
    names = [(str(info.id) if several else info.name, info.kind) for info in found]
    return [(name, kind) for name, kind in names if name.startswith(incomplete)]


def running_node(incomplete: str) -> list[str]:
    """The nodes of the deployments that run on this machine."""
    from anabranch.deploy.running import all_running

    try:
        files = [Path(running.file).read_text(encoding="utf-8") for running in all_running()]
        names = {name for text in files for name in tomllib.loads(text).get("nodes", {})}
    except (AnabranchError, OSError, ValueError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def source(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Of these the sources."""
    return [(name, kind) for name, kind in stream(context, incomplete) if kind == "source"]


def _paths(incomplete: str, suffixes: Iterable[str]) -> list[str]:
    folder, slash, name = incomplete.rpartition("/")
    found = sorted(
        (each.name, each.is_dir())
        for each in Path((folder or "/") if slash else ".").iterdir()
        if each.name.startswith(name) and (name.startswith(".") or not each.name.startswith("."))
    )
    wanted = [
        f"{folder}{slash}{name}{'/' if is_directory else ''}"
        for name, is_directory in found
        if is_directory or name.lower().endswith(tuple(suffixes))
    ]
    if any(_QUOTED & set(path) for path in wanted):
        return []
    if len(wanted) == 1 and wanted[0].endswith("/"):  # a shell would go on to the next argument after it
        return _paths(wanted[0], suffixes) or wanted
    return wanted


def _streams(context: typer.Context) -> list[Any]:
    address = context.params.get("address")
    if not address:
        return []
    from anabranch.transport.client import Client

    try:
        with Client(address, timeout_s=ANSWER_S) as client:
            return client.streams()
    except AnabranchError:
        return []

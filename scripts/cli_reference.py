"""Writes docs/reference/cli.md from the program itself. A test compares, so the page cannot fall behind.

Usage: python scripts/cli_reference.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from anabranch.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = """\
# Command line

<!-- written by scripts/cli_reference.py: change the program and run it again -->

`anabranch --help` lists the commands, `anabranch COMMAND --help` explains one. `anabranch --debug COMMAND …` shows the
traceback of an error. Errors are printed as `error[code]: …`; [errors by code](errors.md) says what to do.

| exit code | meaning |
|---|---|
| 0 | done; for a service, stopped by SIGTERM or `--for` |
| 2 | you must change what you wrote or sent |
| 3 | the operator of the node must act |
| 70 | a bug in Anabranch |
| 130 | ended with Ctrl-C |
| 143 | `bench` or `paper` ended by SIGTERM: the measurement is incomplete |

A DURATION is a number and a unit: `500ms`, `10s`, `5m`, `1.5h`, `2d`. A SIZE is bytes, or a number and a
unit: `256MB`, `8GiB`.

On a terminal, tables fit its width and states have colours; `NO_COLOR=1` turns colours off. In a file or a pipe
there are no colours and no width limit. When results are for a script, progress goes to standard error.

## Completion

`anabranch --install-completion` installs completion for the current shell (bash, zsh or fish); open a
new terminal afterwards. `anabranch --show-completion` prints the script instead. The Tab key then offers commands,
options, their values, query files (`.py`, `.sql`, `.yaml`, `.yml`), files of rows, and, after the address of a node
that answers within half a second, its streams. Completion runs and loads nothing: it does not open query files.

## Names of streams

A node may run several queries. A stream or a source is written `QUERY/STREAM`, in every command and in Python. The
query may be left out where only one query of the node (with `--deployment`: of the file) has such a stream. Otherwise
the error lists those to choose from.

## JSON

With `--json`, standard output is one JSON object and nothing else. Later versions may add keys, but keep those listed.
Errors are not JSON: they go to standard error as `error[code]: …`, and the exit code shows who must act.

| command | keys |
|---|---|
| `version --json` | `anabranch`, `python`, `pyspark`, `pyarrow`: versions; null if not installed |
| `explain --json` | `query`, `problems` (a list, each with code, box, message and remedy), \
`diagram` (as in YAML; null if there are problems), `columns` (name and type of each column, by arrow), \
`classes` (of each box, by order, with reasons), `state` (what each box keeps), \
`python` (what each Python box calls, and where), `recovery` (by mode), \
`floats` (by box and column: the scale if it is exact, what decides by it, whether replicas are refused), \
`refusals` (by mode, each like a problem), `plans` (by stage; empty without --plan), \
`warnings` (functions of Python boxes that are not on this machine) |
| `operators --json` | `operators` (by kind of box, each with `meaning`, `class`, `state` and `keys`, its parameters) |
| `explain FILE.toml --json` | `mistakes` (a list, each with code, path, message and remedy), \
`plan` (null if there are mistakes): `queries`, `nodes`, `links`, `faults` |
| `run --json` | `query`, `state` (the state directory), `address`: one line, when the node runs |
| `node --json` | `node`, `queries` (their names), `state`, `address`: one line, when the node runs, or waits for a \
query |
| `push --json` | `accepted`, `repeated`, `late`, `skipped`: rows; also after an error |
| `status --json` | `node` (its name), `address`, `state`, `intake`, `uptime_s`, `executors`, `spark`, `links`, \
`queries` |
| `status --deployment --json` | `file`, `nodes`, `queries` |
| `prepare --json` | `archive` (its path), `made` (false if there was one), `seconds` (null if there was one) |

`subscribe --format jsonl` prints one object per row, and `demo --json FILE` writes its summary to a file. The contents
of `status --json` are in [the status of a node](status.md). Those of `status --deployment`:

| of each | keys |
|---|---|
| node of a deployment | `state`: that of [the node](status.md), or unreachable; where `anabranch up` runs \
it also paused, killed, ended; `address`, `site`, `queries` (each with `enters`: sources, `runs`: fragments, \
`writes`: outputs), `others` (queries that it runs and the file does not have), `uptime_s`, `rows_in`, `alarms`, \
`error` |
| query | `mode`, `fragments`, `streams`, `lanes` |
| lane of a query | `source`, `punctuation_us`, `silent_us`, `closed`, `address`, `waits_for` (the origin that holds \
it at the [horizon](../pushing.md#the-horizon)): at the entry point that is furthest ahead |
| fragment | `boxes`, `copies`: by node, with `state`, `lag_rows`, `rows_out`, `error` |
| stream of a deployment | `copies`: by node, with `last_id`, `bytes`; `readers`: by node and copy, \
with `state`, `lag_rows`, `first` (tuples that it delivered first), `error`; null for a copy or reader that does not \
answer |
"""


def page() -> str:
    return HEAD + "".join(_section(name, function) for name, function in commands(app, "anabranch"))


def commands(program: typer.Typer, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every command with its full name, groups last."""
    for command in program.registered_commands:
        assert command.callback is not None
        yield f"{name} {command.name or command.callback.__name__}", command.callback
    for group in program.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{name} {group.name}")


def _section(name: str, function: Callable[..., Any]) -> str:
    told, _, examples = inspect.cleandoc(function.__doc__ or "").partition("\b\n")
    parameters = list(_parameters(function))
    usage = " ".join([name, *(usage for kind, usage, _ in parameters if kind == "argument"), "[OPTIONS]"])
    if not any(kind == "option" for kind, _, _ in parameters):
        usage = usage.removesuffix(" [OPTIONS]")
    lines = re.sub(r"^Examples?:\n", "", examples).strip("\n").splitlines()
    rows = "".join(f"| `{_cell(shown)}` | {_cell(text)} |\n" for _, shown, text in parameters)
    table = f"| argument or option | meaning |\n|---|---|\n{rows}\n" if rows else ""
    code = "\n".join(line.removeprefix("  ") for line in lines)
    return f"\n## {name}\n\n`{usage}`\n\n{told.strip()}\n\n{table}```sh\n{code}\n```\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """Argument or option, how it is written, and what it means."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, info = get_args(hints[parameter.name])
        text = info.help or ""
        if isinstance(info, ArgumentInfo):
            shown = info.metavar or parameter.name.upper()
            yield "argument", shown if parameter.default is parameter.empty else f"[{shown}]", text
        elif isinstance(info, OptionInfo):
            yield "option", _option(parameter.name, kind, info), text + _default(parameter.default, kind)


def _option(name: str, kind: Any, info: OptionInfo) -> str:
    given = info.default if isinstance(info.default, str) else ""  # in Annotated, typer takes a first "--flag" for it
    flag = given or f"--{name.replace('_', '-')}"
    if kind is bool:
        return flag if given else f"{flag} / --no-{name}"
    return f"{flag} {info.metavar or _values(kind)}"


def _values(kind: Any) -> str:
    """``jsonl|csv`` for a choice; for anything else, what sort of value it is."""
    one = next(iter(each for each in get_args(kind) if each is not NoneType), kind)
    if issubclass(one, Enum):
        return "|".join(str(each.value) for each in one)
    return {int: "N", Path: "PATH"}.get(one, "TEXT")


def _default(default: object, kind: Any) -> str:
    if default is None or kind is bool:
        return ""
    return f" [default: {default:,}]" if isinstance(default, int) else f" [default: {default}]"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

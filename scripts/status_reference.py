"""Writes docs/reference/status.md from the JSON schema of a node's status. A test compares, so it cannot fall behind.

Usage: python scripts/status_reference.py
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from anabranch.model.node_state import NodeState
from anabranch.runtime import status

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "status.md"

HEAD = """\
# Status of a node

<!-- written by scripts/status_reference.py: change runtime/status.py and run it again -->

What `anabranch status ADDRESS --json` prints, what the action `status` of a node answers over Flight, and what
`connect(ADDRESS).status()` returns in Python: a `HostStatus`, read by attribute. Later versions may add keys, but keep
those listed. Keys that end in `_us` are microseconds, those in `_s` seconds. What `anabranch status --deployment
--json` prints is in [the reference of the command line](cli.md#json).

The state of a node, and of a query on it: {states}.
"""

ORDER = ("HostStatus", "QueryStatus")


def page() -> str:
    found = status.schema()
    types = {found["title"]: found, **{name: each for name, each in found["$defs"].items() if "properties" in each}}
    names = [*ORDER, *sorted(types.keys() - set(ORDER))]
    states = ", ".join(f"{state.value} ({state.meaning})" for state in NodeState)
    meanings = all_meanings()
    sections = (section(name, types[name], meanings[name]) for name in names)
    return "\n".join(
        [HEAD.format(states=states), *sections, "## JSON schema", "", "```json", as_text(found), "```", ""]
    )


def section(name: str, kind: dict[str, Any], meanings: dict[str, str]) -> str:
    lines = [f"## {name}", "", kind["description"], "", "| key | type | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | {type_of(each)} | {meanings[key]} |" for key, each in kind["properties"].items()]
    return "\n".join([*lines, ""])


def all_meanings() -> dict[str, dict[str, str]]:
    """By type and field, the text below the field in the source."""
    tree = ast.parse(Path(status.__file__).read_text(encoding="utf-8"))
    return {each.name: dict(_meanings(each)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _meanings(kind: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(kind.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                yield name, meaning


def type_of(each: dict[str, Any]) -> str:
    return " or ".join(words(each))


def words(each: dict[str, Any]) -> Iterator[str]:
    match each:
        case {"anyOf": several}:
            for one in several:
                yield from words(one)
        case {"$ref": place}:
            name = place.rpartition("/")[2]
            yield "state" if name == NodeState.__name__ else f"[{name}](#{name.lower()})"
        case {"enum": values}:
            yield ", ".join(values)
        case {"additionalProperties": value}:
            yield f"object of {type_of(value)}"
        case {"items": value}:
            yield f"list of {type_of(value)}"
        case {"type": kind}:
            yield str(kind)


def as_text(found: dict[str, Any]) -> str:
    """Without titles and descriptions: the tables have them."""
    return json.dumps(_plain(found), indent=1)


def _plain(value: Any, *, names: bool = False) -> Any:
    """``names`` is set where keys are names of fields or types, and not words of JSON schema."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    left = value if names else {key: each for key, each in value.items() if key not in ("title", "description")}
    return {key: _plain(each, names=not names and key in ("properties", "$defs")) for key, each in left.items()}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

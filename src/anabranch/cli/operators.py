"""``anabranch operators``: every kind of box, with its class, the state it keeps and what it does."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def operators(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the boxes that a query can have.

    The class says what a restart does to a box (docs/classes.md); `anabranch explain` shows it for each box of a query.
    docs/reference/boxes.md defines each box and shows how to write and use it.

    \b
    Examples:
      anabranch operators
      anabranch operators --json | jq -r '.operators | keys[]'
    """
    from anabranch.query.catalog import KINDS

    if as_json:
        import json

        typer.echo(json.dumps({"operators": {name: _facts(kind) for name, kind in KINDS.items()}}, indent=2))
        return
    from anabranch.cli.colours import console
    from anabranch.cli.tables import print_table, table

    made = table("operators", "=box", "meaning", "class", "state")
    for name, kind in KINDS.items():
        made.add_row(name, kind.meaning, kind.class_, kind.state)
    print_table(console(), made)


def _facts(kind: Any) -> dict[str, Any]:
    keys = [key.name for key in kind.keys]
    return {"meaning": kind.meaning, "class": kind.class_, "state": kind.state, "keys": keys}

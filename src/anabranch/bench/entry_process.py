"""One entry point as a process: ``python -m anabranch.bench.entry_process DIRECTORY NAME a=20001 b=20002 …``.

It shares its source with the others that are named, and runs nothing else, so it needs no Spark. It ends when its
standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from anabranch.model.assignment import AssignedEntry, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query

SOURCE: Final = "events"


def query() -> Diagram:
    made = Query("entry")
    events = made.source(SOURCE, "n bigint, text string")
    made.output("out", events.filter("n >= 0", name="all"))
    return made.checked()


def part(name: str, addresses: dict[str, str]) -> AssignedQuery:
    others = {other: address for other, address in addresses.items() if other != name}
    assignment = QueryAssignment(
        query=QueryId("entry"),
        host=name,
        entries=(AssignedEntry(source=SOURCE, peers=tuple(others)),),
        addresses=others,
    )
    return AssignedQuery(query(), assignment)


def main(directory: str, name: str, *given: str) -> None:
    ports = {each: int(port) for each, _, port in (item.partition("=") for item in given)}
    addresses = {each: f"127.0.0.1:{port}" for each, port in ports.items()}
    settings = NodeSettings(port=ports[name])
    with Node(query(), Path(directory), settings, part=part(name, addresses)):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

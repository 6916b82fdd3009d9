"""One entry point as a process: ``python -m tests.integration.entry_point_process DIRECTORY NAME PRODUCER a=20001 …``.

With an empty producer its lane is one of plain clients.

It ends when its standard input does, so that it never outlives the test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from tests.integration.entry_points import diagram, entry_part


def main(directory: str, name: str, producer: str, *given: str) -> None:
    ports = {each.partition("=")[0]: int(each.partition("=")[2]) for each in given}
    addresses = {each: f"127.0.0.1:{port}" for each, port in ports.items()}
    settings = NodeSettings(port=ports[name], disk_reserve_bytes=1 << 20)
    query = diagram(producers=(producer,) if producer else ())
    with Node(query, Path(directory), settings, part=entry_part(query, name, addresses)):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

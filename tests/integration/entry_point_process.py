"""One entry point as a process: ``python -m tests.integration.entry_point_process DIRECTORY NAME PRODUCER a=20001 …``.

With an empty producer its lane is one of plain clients. ``fed=ab`` says that ``a`` and ``b`` have a feed of the source.

It ends when its standard input does, so that it never outlives the test.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anabranch as ab
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from tests.integration.entry_points import diagram, entry_part

FEED_RATE = 200.0


def main(directory: str, name: str, producer: str, *given: str) -> None:
    said = dict(each.split("=") for each in given)
    fed = tuple(said.pop("fed", ""))
    ports = {each: int(port) for each, port in said.items()}
    addresses = {each: f"127.0.0.1:{port}" for each, port in ports.items()}
    settings = NodeSettings(port=ports[name], disk_reserve_bytes=1 << 20)
    feed = ab.feeds.generator(rate=FEED_RATE, columns={"x": "sequence"}) if fed else None
    query = diagram(producers=(producer,) if producer else (), feed=feed)
    with Node(query, Path(directory), settings, part=entry_part(query, name, addresses, fed)):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What one row costs on its way into two replicas through three entry points: durable writes, and messages over Flight.

Rows come one at a time, ten a second, which is when nothing is shared between them but what is held back for that. The
replicas have no stage here: theirs is what their inlets store.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.model.ids import QueryId
from anabranch.node.dialer import Dialer, direct
from anabranch.node.inlets import Inlets
from anabranch.query.graph import stages
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction
from anabranch.transport import messages
from anabranch.transport.session import connect
from tests.assigning import assigned
from tests.integration.entry_points import EntryPoints, diagram, entry_points
from tests.waiting import wait_for

ROWS = 40
EVERY_S = 0.1
REPLICAS = ("one", "two")
WRITES = 10
MESSAGES = 13
"""What it took before entries were stored once and sent together. It stays below."""


class Counted:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def counting(self, what: str, function: Callable[..., bytes]) -> Callable[..., bytes]:
        def called(*args: object) -> bytes:
            self.counts[what] += 1
            return function(*args)

        return called


def test_a_row_costs_fewer_writes_and_messages_than_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    finish = Transaction.finish
    query = diagram()
    stage = stages(query)[0].name
    readers = tuple(assigned(query, name, stages=[stage]).reader for name in REPLICAS)
    with entry_points(tmp_path, query=query, readers=readers) as points:
        points.start()
        with replicas(tmp_path, points) as inlets, connect(points.addresses()) as connections:
            producer = connections.producer("events", "p")
            producer.push(pa.table({"x": pa.array([0])}))
            wait_for(lambda: all(read(each) == 1 for each in inlets), lambda: [read(each) for each in inlets])
            monkeypatch.setattr(messages, "encode", counted.counting("messages", messages.encode))
            monkeypatch.setattr(messages, "pack", counted.counting("messages", messages.pack))

            def finished(transaction: Transaction) -> object:
                counted.counts["writes"] += 1
                return finish(transaction)

            monkeypatch.setattr(Transaction, "finish", finished)
            for number in range(1, ROWS + 1):
                producer.push(pa.table({"x": pa.array([number])}))
                time.sleep(EVERY_S)  # the rate is what is measured
            wait_for(lambda: all(read(each) == ROWS + 1 for each in inlets), lambda: [read(each) for each in inlets])
            cost = {what: count / ROWS for what, count in counted.counts.items()}
    assert 0 < cost["writes"] < WRITES, cost
    assert 0 < cost["messages"] < MESSAGES, cost


@contextmanager
def replicas(directory: Path, points: EntryPoints) -> Iterator[list[Inlets]]:
    """Two that read all copies of the source into journals of their own."""
    upstream = {"events": {name: points.address(name) for name in points.names}}
    dialer = Dialer(direct).about(QueryId(points.query.name))
    spec = points.nodes["a"].hosted.streams.logs["events"][1].spec
    stage = stages(points.query)[0].name
    made: list[tuple[Store, Inlets]] = []
    try:
        for name in REPLICAS:
            part = assigned(points.query, name, stages=[stage], upstream=upstream)
            store = Store.open(directory / f"{name}.db")
            inlets = Inlets(part, name, clock=time.time_ns, dialer=dialer, rebuild=pytest.fail, holds={})
            inlets.open(store, store.create_log(spec))
            made.append((store, inlets))
        yield [inlets for _, inlets in made]
    finally:
        for store, inlets in made:
            inlets.stop()
            store.close()
        dialer.close()


def read(inlets: Inlets) -> int:
    inlet = inlets["events"]
    inlet.settled()
    return inlet._journal.last_id()

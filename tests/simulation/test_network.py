"""Connections of the simulated network: what both ends see when one of them is not there."""

from __future__ import annotations

from anabranch.sim.network import NOTICE_US, Network
from anabranch.sim.world import MS, World


def test_who_is_started_again_is_not_taken_for_who_was_refused_before() -> None:
    """Seed 295: a reader subscribed just after its start; the node that had written to it just before took the
    subscription for that of the connection that was refused, and forgot it, and the reader waited forever."""
    world, there, seen = World(0), [False], list[str]()
    network = Network(world, refuses=True)
    network.attach("node", lambda _, said: seen.append(said), lambda _: seen.append("lost"))
    network.attach("reader", lambda _, said: None, lambda _: None, is_up=lambda: there[0])
    network.send("node", "reader", "rows")

    def start() -> None:
        there[0] = True
        network.send("reader", "node", "subscribe")

    world.after(95 * MS, start)  # after the rows have come in vain, and before the node has noticed
    world.run_until(10 * NOTICE_US)
    assert seen == ["lost", "subscribe"]

"""The horizon with Spark: what the windows of a second layer have heard holds the lanes, and lets all of them go on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.errors import Overloaded
from tests.integration.test_parts import START, deployed, diagram
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_lanes_stay_together_and_get_on_however_far_they_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 1.0)
    query = diagram(producers=["fast", "slow"], horizon="10s")
    with deployed(tmp_path, query=query) as deployment, ab.connect(deployment.address("entry")) as connection:

        def push(lane: str, seconds: float, patience_s: float = HANG_S) -> None:
            producer = connection.producer("events", lane, deadline_s=patience_s)
            producer.push([{"k": 1, "x": 1, "at": START + timedelta(seconds=seconds)}])

        def known_us() -> int:
            return deployment.nodes["entry"].hosted.streams.reports.waits_for("events").time_us

        push("fast", 0)
        push("fast", 100)
        push("slow", 1)
        wait_for(known_us)
        with pytest.raises(Overloaded, match="ahead of events/slow"):
            push("fast", 101, patience_s=0)
        push("slow", 95)
        push("fast", 101)
        for lane, seconds in (("slow", 1_000), ("fast", 1_000), ("fast", 5_000.0007), ("slow", 5_000.0003)):
            push(lane, seconds)
        deployment.stop("a")
        push("fast", 9_000)
        push("slow", 9_000)
        connection.producer("events", "slow").close_lane()
        push("fast", 20_000)

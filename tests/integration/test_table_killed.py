"""A database that is killed in the middle of writes, again and again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests import postgres
from tests.unit.node.test_table_writer import LATEST, Bench
from tests.waiting import HANG_S, wait_for


@pytest.mark.parametrize("key", ["k", None])
def test_a_server_that_is_killed_amid_writes_has_lost_nothing_and_nothing_twice(
    key: str | None, tmp_path: Path
) -> None:
    """The writer's thread goes on by itself; rounds end by rows that are written, never by the clock."""
    bench = Bench(tmp_path / "o.db")
    with postgres.server() as server:
        named = f",key={key}" if key else ""
        runner = bench.runner(f"table:{server.url},table=latest,rows=50,every=1ms{named}")
        runner.open()
        runner.start()
        for _ in range(4):
            written = runner.statistics().rows
            bench.append(2_000)
            wait_for(lambda written=written: runner.statistics().rows > written, runner.statistics)
            server.kill()
            bench.append(100)
            wait_for(lambda: runner.statistics().state == "restarting", runner.statistics)
            server.start()
        wait_for(lambda: runner.statistics().position == bench.log.last_id(), runner.statistics)
        bench.stopping.set()
        runner.stop(time.monotonic() + HANG_S)
        count = bench.log.last_id()
        assert count == 4 * 2_100
        if key is None:
            assert server.rows("SELECT count(*), count(DISTINCT x), max(x) FROM latest") == [(count, count, count - 1)]
        else:
            newest = {f"k{number % Bench.KEYS}": number for number in range(count)}
            assert server.rows(LATEST) == sorted(newest.items())
        assert server.rows("SELECT last_id FROM anabranch_progress") == [(count,)]
    bench.store.close()

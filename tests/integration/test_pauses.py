"""Entry points as real processes that sleep (SIGSTOP): lanes go on without a sleeper, and with it when it is awake."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.errors import NodeUnreachable
from tests.chaos.pauses import Sleepers, play_round
from tests.integration.test_entry_points_killed import NAMES, Processes, processes
from tests.waiting import HANG_S, wait_for


@pytest.mark.long
def test_after_some_pauses_every_lane_of_the_example_takes_rows(tmp_path: Path) -> None:
    with Sleepers(tmp_path) as sleepers:
        wait_for(lambda: len(sleepers.places()) == 8 and min(sleepers.places().values()) > 0, sleepers.places)
        played = play_round(sleepers, seed=5, pauses=2, report=lambda line: None)
        assert played.hanging == [], sleepers.stories(played.hanging)


class Pushed:
    """What a client has pushed so far, one row after the other, in a thread of its own."""

    def __init__(self, push: Callable[[int], None]) -> None:
        self.count = 0
        self.failures: list[Exception] = []
        self._push = push
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_more(self, rows: int) -> None:
        reached = self.count + rows
        wait_for(lambda: self.count >= reached or self.failures, lambda: f"{self.count} of {reached}: {self.failures}")
        assert self.failures == []

    def stop(self) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._enough.is_set():
                self._push(self.count)
                self.count += 1
        except Exception as error:
            self.failures.append(error)


def sleep_in_turn(running: Processes, pushed: Pushed) -> None:
    """Rows are taken while the one sleeps that led, then while its successor does, and after each woke up."""
    for name in NAMES[:2]:
        pid = running.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            pushed.wait_more(5)
        finally:
            os.kill(pid, signal.SIGCONT)
        pushed.wait_more(5)


def test_a_named_producer_goes_on_while_one_of_them_sleeps(tmp_path: Path) -> None:
    with processes(tmp_path) as running, ab.connect(list(running.addresses.values())) as connection:
        producer = connection.producer("events", "p", deadline_s=HANG_S)

        def push(value: int) -> None:
            producer.push([{"x": value}])

        pushed = Pushed(push)
        try:
            sleep_in_turn(running, pushed)
        finally:
            pushed.stop()
        wait_for(lambda: all(running.count(name) >= pushed.count for name in NAMES))
        shown = {name: running.shown(name) for name in NAMES}
        assert [x for _, _, x in shown["a"]] == list(range(pushed.count))
        assert shown["a"] == shown["b"] == shown["c"]


def test_plain_clients_go_on_while_one_of_them_sleeps(tmp_path: Path) -> None:
    with processes(tmp_path, owned=True) as running, ab.connect(list(running.addresses.values())) as connection:

        def push(value: int) -> None:
            """A plain client does not know whether a lost push was kept: it pushes the next."""
            try:
                connection.push("events", [{"x": value}])
            except NodeUnreachable:
                connection.push("events", [{"x": -value}])

        pushed = Pushed(push)
        try:
            sleep_in_turn(running, pushed)
        finally:
            pushed.stop()
        assert pushed.failures == []
        wait_for(lambda: len({running.count(name) for name in NAMES}) == 1)
        wait_for(lambda: len({tuple(running.shown(name)) for name in NAMES}) == 1)
        assert set(range(pushed.count)) <= {abs(x) for _, _, x in running.shown("a")}

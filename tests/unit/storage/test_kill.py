"""kill -9 of a process that writes: what it said it had committed is there, and nothing is half."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from anabranch.storage import Store
from tests.unit.storage.stories import values_in

ROUNDS = 4
ROOT = Path(__file__).parents[3]


def test_killed_again_and_again_a_log_goes_on_where_it_was(path: Path) -> None:
    rng = random.Random(7)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "tests.unit.storage.writer_to_kill", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            lines = [process.stdout.readline() for _ in range(rng.randint(0, 200))]
            process.kill()
            lines += process.stdout.read().splitlines(keepends=True)
            said = [int(line) for line in lines if line.endswith("\n")]
        store = Store.open(path)
        values = values_in(store.log("s"))
        assert values == list(range(len(values)))
        assert len(values) >= max(said, default=0)
        assert store.get("k") == (str(len(values)).encode() if values else None)
        store.close()

"""The short form of ``make chaos``: two kills, and the output is what the reference says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.recording import expected_output, record
from tests.chaos.run import ChaosRun, Kill, problems_against, problems_within

ROWS = 800


@pytest.mark.processes
@pytest.mark.timeout(180)  # three starts of Spark
def test_killed_twice_a_node_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"python -m tests.chaos --seed {seed} makes the same kind of input")
    rng = random.Random(seed)
    recording = record(seed, ROWS)
    kills = [
        Kill(
            failpoint=rng.choice(["push.committed", "stage.offsets_written", "stage.logged"]), count=rng.randint(1, 4)
        ),
        Kill(while_starting=True, delay_s=rng.uniform(0, 5)),  # while Spark starts
    ]
    outcome = ChaosRun(recording, tmp_path, kills).run()
    assert problems_within(outcome) == []
    assert problems_against(expected_output(recording), outcome) == []

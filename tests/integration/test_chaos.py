"""The short form of ``make chaos``: the experiment of the racing paper is hurt four times, and its output is whole."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path

import pytest

from anabranch.model.links import Cut
from tests.chaos import planetlab
from tests.chaos.deployment_run import DeploymentRun
from tests.chaos.fault_plan import Fault
from tests.chaos.recording import expected_output

ROWS = 500
SECONDS = 25.0

FAULTS = [
    Fault(kind="kill", where=("wisc",), lasts_s=inf, after_s=2.0),
    Fault(kind="lose disk", where=("mit",), lasts_s=2.0, after_s=2.0),
    Fault(kind="pause", where=("osu",), lasts_s=3.0, after_s=1.0),
    Fault(kind="cut", where=("ucsd", "uw"), lasts_s=4.0, after_s=1.0, link=Cut()),
]
"""One union goes for good. That a replica comes back with nothing is in ``test_parts``, and in the long form."""


@pytest.mark.processes
@pytest.mark.timeout(600)  # three starts of Spark
def test_hurt_in_all_its_parts_the_experiment_has_the_output_of_the_reference(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}, in {tmp_path}")
    recording = planetlab.record(seed, ROWS)
    file = planetlab.write_deployment(recording, tmp_path, joins=1)
    outcome = DeploymentRun(file, recording, planetlab.OUTPUT).run(FAULTS, seconds=SECONDS)
    print(outcome.figures)
    assert set(outcome.faults) == set(FAULTS)
    assert outcome.problems_within() == []
    assert outcome.problems_against(expected_output(recording)) == []

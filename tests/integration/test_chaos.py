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
from tests.spark import LIGHT, QUICK_JVM

ENTRIES_S = 40

FAULTS = [
    Fault(kind="kill", where=("wisc",), lasts=inf),
    Fault(kind="lose disk", where=("mit",), lasts=40, after=20),
    Fault(kind="pause", where=("osu",), lasts=60, after=20),
    Fault(kind="cut", where=("ucsd", "uw"), lasts=80, after=20, link=Cut()),
]
"""One union goes for good. That a replica comes back with nothing is in ``test_parts``, and in the long form."""


@pytest.mark.processes
def test_hurt_in_all_its_parts_the_experiment_has_the_output_of_the_reference(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}, in {tmp_path}")
    recording = planetlab.record(seed)
    file = planetlab.write_deployment(recording, tmp_path, joins=1, java=QUICK_JVM, conf=LIGHT)
    run = DeploymentRun(file, recording, planetlab.OUTPUT)
    outcome = run.run_hurt(FAULTS, entries_s=ENTRIES_S)
    print(outcome.figures)
    assert set(outcome.faults) == set(FAULTS)
    assert outcome.problems_within() == []
    assert outcome.problems_against(expected_output(run.recording)) == []

"""``make chaos``: ten minutes of random faults to the experiment of the racing paper, and nobody who reads it notices.

Nodes are killed, lose their disks and stand still, links are cut, delayed and slow. What came out is compared with the
reference, and with a run of the same deployment and input that nobody disturbed.
"""

from __future__ import annotations

import argparse
import sys

from anabranch.errors import AnabranchError
from tests.chaos import planetlab
from tests.chaos.comparing import as_expected
from tests.chaos.deployment_run import DeploymentRun
from tests.chaos.fault_plan import draw_faults, missing_coverage
from tests.chaos.processes import HarnessError
from tests.chaos.recording import expected_output
from tests.chaos.telling import Teller, add_seed

ROWS_S = 20
"""Rows a second, of all lanes: two or three of each, as in the paper."""


def main() -> int:
    options = _options()
    with Teller(options.seed, f"python -m tests.chaos --minutes {options.minutes} --joins {options.joins}") as teller:
        try:
            return teller.judge(_problems(teller, options.minutes, options.joins))
        except (HarnessError, AnabranchError) as error:
            return teller.failed(error)


def _problems(teller: Teller, minutes: float, joins: int) -> dict[str, list[str]]:
    recording = planetlab.record(teller.seed, int(minutes * 60 * ROWS_S))
    teller.say(f"seed {teller.seed}, {recording.rows} rows, {minutes} min of faults, in {teller.directory}")
    expected = expected_output(recording)
    teller.say(f"reference: {sum(len(stream.rows) for stream in expected.values())} rows in {len(expected)} streams")

    def prepared(name: str) -> DeploymentRun:
        folder = teller.directory / name
        folder.mkdir()
        file = planetlab.write_deployment(recording, folder, joins=joins)
        return DeploymentRun(file, recording, planetlab.OUTPUT, teller.say)

    run = prepared("hurt")
    hurt = run.run(draw_faults(teller.seed, run.layout), seconds=minutes * 60)
    teller.say(f"hurt run: {hurt.figures}")
    undisturbed = prepared("undisturbed").run()
    teller.say(f"undisturbed run: {undisturbed.figures}")
    return {
        "faults": missing_coverage(hurt.faults, run.layout),
        "hurt run": hurt.problems_within(),
        "hurt run against the reference": hurt.problems_against(expected),
        "undisturbed run": undisturbed.problems_within(),
        "undisturbed run against the reference": undisturbed.problems_against(expected),
        "hurt run against the undisturbed one": hurt.problems_against(as_expected(undisturbed.streams)),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    add_seed(parser)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults [default: 10]")
    parser.add_argument("--joins", type=int, choices=(1, 2), default=2, help="copies of the join [default: 2]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

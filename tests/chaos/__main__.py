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
from tests.chaos.fault_plan import draw_faults, lasting
from tests.chaos.processes import HarnessError
from tests.chaos.recording import Recording, expected_output
from tests.chaos.telling import Teller, add_seed


def main() -> int:
    options = _options()
    box = options.box or planetlab.diagram_of(options.seed)
    again = f"python -m tests.chaos --minutes {options.minutes} --joins {options.joins} --box {box}"
    with Teller(options.seed, again) as teller:
        try:
            return teller.judge(_problems(teller, options.minutes, options.joins, box))
        except (HarnessError, AnabranchError) as error:
            return teller.failed(error)


def _problems(teller: Teller, minutes: float, joins: int, box: str) -> dict[str, list[str]]:
    teller.say(f"seed {teller.seed}, {minutes} min of faults, query with {box}, in {teller.directory}")

    def prepared(name: str, recording: Recording) -> DeploymentRun:
        folder = teller.directory / name
        folder.mkdir()
        file = planetlab.write_deployment(recording, folder, joins=joins)
        return DeploymentRun(file, recording, planetlab.OUTPUT, teller.say)

    run = prepared("hurt", planetlab.record(teller.seed, box))
    hurt = run.run_hurt(lasting(minutes * 60, draw_faults(teller.seed, run.layout), run.layout))
    teller.say(f"hurt run: {hurt.figures}")
    expected = expected_output(run.recording)
    rows = sum(len(stream.rows) for stream in expected.values())
    teller.say(f"reference: {run.recording.rows} rows in, {rows} rows in {len(expected)} streams out")
    undisturbed = prepared("undisturbed", run.recording).run()
    teller.say(f"undisturbed run: {undisturbed.figures}")
    return {
        "hurt run": hurt.problems_within(),
        "hurt run against the reference": hurt.problems_against(expected),
        "undisturbed run": undisturbed.problems_within(),
        "undisturbed run against the reference": undisturbed.problems_against(expected),
        "hurt run against the undisturbed one": hurt.problems_against(as_expected(undisturbed.streams)),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    add_seed(parser)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults, at least [default: 10]")
    parser.add_argument("--joins", type=int, choices=(1, 2), default=2, help="copies of the join [default: 2]")
    parser.add_argument("--box", choices=planetlab.DIAGRAMS, help="which the query has [default: by the seed]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

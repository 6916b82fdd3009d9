"""``make chaos-single``: kill a node twenty times, and compare what came out with the reference and an undisturbed
run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import anabranch as ab
from tests.chaos.comparing import as_expected, problems_against, problems_within
from tests.chaos.five_boxes import FOLLOWED, ROUNDED, ordered_query, query, record
from tests.chaos.processes import HarnessError
from tests.chaos.recording import expected_output
from tests.chaos.run import ChaosRun, plan_kills
from tests.chaos.telling import Teller, add_seed


def main() -> int:
    options = _options()
    with Teller(options.seed, "python -m tests.chaos.single") as teller:
        try:
            return teller.judge(_problems(teller, options.kills, ordered_query if options.ordered else query))
        except HarnessError as error:
            return teller.failed(error)


def _problems(teller: Teller, kills: int, made: Callable[[], ab.Query]) -> dict[str, list[str]]:
    teller.say(f"seed {teller.seed}, {kills} kills, in {teller.directory}")
    planned = plan_kills(teller.seed, kills)
    run = ChaosRun(record(teller.seed, made), teller.directory / "killed", planned, report=teller.say)
    killed = run.run()
    teller.say(f"killed run: {killed.figures}")
    expected = expected_output(run.recording)
    rows = sum(len(stream.rows) for stream in expected.values())
    teller.say(f"reference: {run.recording.rows} rows in, {rows} rows in {len(expected)} streams out")
    undisturbed = ChaosRun(run.recording, teller.directory / "undisturbed", report=teller.say).run()
    teller.say(f"undisturbed run: {undisturbed.figures}")
    alone = as_expected(undisturbed.streams)
    return {
        "undisturbed run": problems_within(undisturbed.streams, FOLLOWED, undisturbed.followed),
        "undisturbed run against the reference": problems_against(expected, undisturbed.streams, ROUNDED),
        "killed run": problems_within(killed.streams, FOLLOWED, killed.followed),
        "killed run against the reference": problems_against(expected, killed.streams, ROUNDED),
        "killed run against the undisturbed one": problems_against(alone, killed.streams, ROUNDED),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.single", description=__doc__)
    add_seed(parser)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ordered", action="store_true", help="a query of boxes that work in order")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""``make chaos-single``: kill a node twenty times, and compare what came out with the reference and an undisturbed
run."""

from __future__ import annotations

import argparse
import sys

from tests.chaos.comparing import as_expected, problems_against, problems_of_tables, problems_within
from tests.chaos.processes import HarnessError
from tests.chaos.queries import FOLLOWED, QUERIES, ROUNDED, query_of, record
from tests.chaos.recording import expected_output
from tests.chaos.run import ChaosRun, plan_kills
from tests.chaos.telling import Teller, add_seed


def main() -> int:
    options = _options()
    query = options.query or query_of(options.seed)
    with Teller(options.seed, f"python -m tests.chaos.single --kills {options.kills} --query {query}") as teller:
        try:
            return teller.judge(_problems(teller, options.kills, query))
        except HarnessError as error:
            return teller.failed(error)


def _problems(teller: Teller, kills: int, query: str) -> dict[str, list[str]]:
    teller.say(f"seed {teller.seed}, {kills} kills, query {query}, in {teller.directory}")
    planned = plan_kills(teller.seed, kills)
    run = ChaosRun(record(teller.seed, QUERIES[query]), teller.directory / "killed", planned, report=teller.say)
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
        "tables of the killed run": problems_of_tables(killed.streams, killed.tables),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.single", description=__doc__)
    add_seed(parser)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--query", choices=QUERIES, help="[default: by the seed]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

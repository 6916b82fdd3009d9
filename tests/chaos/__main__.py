"""``make chaos``: kill a node twenty times, and compare what came out with the reference and an undisturbed run."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.processes import HarnessError
from tests.chaos.recording import expected_output, record
from tests.chaos.run import ChaosRun, as_expected, plan_kills, problems_against, problems_within


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what must be cleaned up is
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="anabranch-chaos-"))

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    recording = record(options.seed, options.rows)
    say(f"seed {options.seed}, {recording.rows} rows, {options.kills} kills, in {directory}")
    expected = expected_output(recording)
    say(f"reference: {sum(len(stream.rows) for stream in expected.values())} rows in {len(expected)} streams")
    try:
        undisturbed = ChaosRun(recording, directory / "undisturbed", report=say).run()
        say(f"undisturbed run: {undisturbed.figures}")
        pushes = sum(len(lane.entries) for lane in recording.lanes) // (options.kills + 1)
        kills = plan_kills(options.seed, options.kills, pushes)
        killed = ChaosRun(recording, directory / "killed", kills, report=say).run()
        say(f"killed run: {killed.figures}")
    except HarnessError as error:
        say(f"FAILED: {error}\nThe state is kept in {directory}.")
        return 1
    problems = {
        "undisturbed run": problems_within(undisturbed),
        "undisturbed run against the reference": problems_against(expected, undisturbed),
        "killed run": problems_within(killed),
        "killed run against the reference": problems_against(expected, killed),
        "killed run against the undisturbed one": problems_against(as_expected(undisturbed), killed),
    }
    return _judge(problems, directory, options.seed)


def _judge(problems: dict[str, list[str]], directory: Path, seed: int) -> int:
    for what, found in problems.items():
        print(f"{what}: {'ok' if not found else f'{len(found)} problems'}")
        for problem in found:
            print(f"  - {problem}")
    if any(problems.values()):
        print(f"FAILED with --seed {seed}. State, logs and query are kept in {directory}.")
        return 1
    shutil.rmtree(directory)
    print("passed: nothing lost, nothing twice.")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="[default: another one each time]")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=15_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

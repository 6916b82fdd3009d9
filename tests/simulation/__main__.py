"""``make sim``: many seeds on all processors; the first that fails is told with the end of its trace."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from anabranch.sim.run import Report, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    faults: Counter[str] = Counter()
    tuples = rebuilds = cuts = rejoined = held_back = holes = moved = repeated = 0
    broken: list[Report] = []
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.Pool() as pool:
        for number, report in enumerate(pool.imap_unordered(simulate, seeds, chunksize=5), start=1):
            faults += report.faults
            tuples, rebuilds, cuts = tuples + report.tuples, rebuilds + report.rebuilds, cuts + report.cuts
            rejoined, held_back = rejoined + report.rejoined, held_back + report.held_back
            holes, moved, repeated = holes + report.holes, moved + report.moved, repeated + report.repeated
            if report.broken:
                broken.append(report)
                print(f"seed {report.seed}: {report.broken}", flush=True)
            if number % 100 == 0:
                print(f"{number:,} of {options.seeds:,} seeds, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{tuples:,} tuples, {rebuilds:,} rebuilds, {cuts:,} readers cut off")
    print(f"{rejoined:,} lanes rejoined after a lost disk, {held_back:,} held back at the horizon")
    print(f"{holes:,} holes where an entry point lacked what its peers had forgotten")
    print(f"{moved:,} plain clients went on at a peer, {repeated:,} times a lane knew again what they said")
    print(", ".join(f"{count:,} x {fault}" for fault, count in sorted(faults.items())))
    for report in broken[:1]:
        print(*report.trace[-60:], sep="\n")
        print(f"Again: anabranch sim --seed {report.seed}")
    print(f"{len(broken)} of {options.seeds:,} seeds broken, {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""``make fuzz``: random diagrams on Spark against the reference, for as many minutes as wanted."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from anabranch.engine.session import close_session
from tests.fuzz.cases import REGRESSIONS
from tests.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--seed", type=int, help="the first seed (random)")
    parser.add_argument("--keep", type=Path, default=REGRESSIONS, help="where a failing case is written")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"python -m tests.fuzz --seed {seed} repeats this", flush=True)
    try:
        report = fuzz(seed, arguments.minutes * 60, arguments.keep, lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        return 130
    finally:
        close_session()
    print(report.text())
    return 1 if report.kept else 0


if __name__ == "__main__":
    sys.exit(main())

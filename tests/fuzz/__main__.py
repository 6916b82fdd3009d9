"""``make fuzz``: random diagrams on Spark against the reference, for as many minutes as wanted."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from anabranch.engine.session import close_session
from anabranch.query.boxes import kind_name
from anabranch.query.catalog import KINDS
from tests.fuzz.cases import REGRESSIONS, Case, random_case
from tests.fuzz.run import fuzz

EPOCHS = 60
"""Cases per diagram: a start of Spark's queries takes seconds, a case more only moments."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--seed", type=int, help="the first seed (random)")
    parser.add_argument("--box", choices=sorted(KINDS), help="only diagrams that have such a box")
    parser.add_argument("--keep", type=Path, default=REGRESSIONS, help="where a failing case is written")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"python -m tests.fuzz --seed {seed} repeats this", flush=True)
    try:
        cases = _random_cases(seed, arguments.minutes, arguments.box)
        report = fuzz(cases, arguments.keep, lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        return 130
    finally:
        close_session()
    print(report.text())
    return 1 if report.kept else 0


def _random_cases(seed: int, minutes: float, box: str | None) -> Iterator[Case]:
    """Of this seed and those after it, with such a box if one is named, until the time is up."""
    deadline = time.monotonic() + minutes * 60
    for each in count(seed):
        if time.monotonic() > deadline:
            return
        case = random_case(each, EPOCHS)
        if box is None or any(kind_name(found) == box for found in case.diagram.boxes):
            yield case


if __name__ == "__main__":
    sys.exit(main())

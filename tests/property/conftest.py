"""One recorded run per diagram serves all tests here: a run takes Spark half a minute, a look at it takes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from anabranch.query.boxes import Diagram
from tests.property.diagrams import counting, joins, lookups, ordered, script, sliding, stateless_and_windows
from tests.recording import Recording, record

SEED = 1
PUSHES = 40
"""Enough that every rule of the reference shows: the run of the mutations needs it."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Diagram]], Recording]:
    """Every stream and batch of a random script on a node that was stopped and started again in the middle."""

    @cache
    def run(diagram: Callable[[], Diagram]) -> Recording:
        random = Random(f"{diagram.__name__} {SEED}")
        return record(diagram(), script(random, PUSHES), tmp_path_factory.mktemp("state") / "state", random)

    return run


@pytest.fixture(
    scope="session",
    params=[stateless_and_windows, joins, counting, ordered, sliding, lookups],
    ids=["windows", "joins", "counting", "ordered", "sliding", "lookups"],
)
def recording(request: pytest.FixtureRequest, recorded: Callable[[Callable[[], Diagram]], Recording]) -> Recording:
    return recorded(request.param)

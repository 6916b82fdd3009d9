"""Options and settings that all tests share, and the end of the Spark session of a run; no fixtures of any one part."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.amounts import SHORT
from tests.costs import Costs

# No deadline: how long an example takes is a matter of the machine. A failure prints the line that repeats it.
settings.register_profile("long", deadline=None, print_blob=True)
settings.register_profile(SHORT, settings.get_profile("long"), max_examples=20, derandomize=True)
settings.register_profile("thorough", settings.get_profile("long"), max_examples=2_000)


@pytest.fixture(scope="session", autouse=True)
def _spark_ends_with_the_tests() -> Iterator[None]:
    """Where there was any: tests without Spark should not load it for this."""
    yield
    session = sys.modules.get("anabranch.engine.session")
    if session is not None:
        session.close_session()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long, which take minutes")
    parser.addoption("--costs", type=Path, metavar="FILE", help="list wall and processor time of tests in FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Random examples are always the same ones, and fewer, except in the long run; ``--hypothesis-profile`` chooses."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("long" if config.getoption("--long") else SHORT)
    if (file := config.getoption("--costs")) is not None:
        config.pluginmanager.register(Costs(file))


def pytest_collection_finish() -> None:
    """What was loaded stays to the end: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end it has to look through all of it: DuckDB complains of what is left."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests are another run (``make test-long``), not a part of this one that is left out."""
    long = [] if config.getoption("--long") else [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]

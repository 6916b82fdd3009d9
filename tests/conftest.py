"""Options and settings that all tests share; no fixtures of any one part."""

from __future__ import annotations

import pytest
from hypothesis import settings

# No deadline: how long an example takes is a matter of the machine. A failure prints the line that repeats it.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long, which take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with --long"))

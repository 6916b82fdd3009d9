"""The Spark session of this run ends with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.engine.session import close_session


@pytest.fixture(scope="session", autouse=True)
def _spark_ends_with_the_tests() -> Iterator[None]:
    yield
    close_session()

"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.storage import Store
from tests.unit.storage.stories import INLINE, spec


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "s.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A store with one empty log, ``s``."""
    store = Store.open(path)
    store.create_log(spec())
    yield store
    store.close()


@pytest.fixture
def inline(path: Path) -> Iterator[Store]:
    """The same, with all bodies in the one file, however large."""
    store = Store.open(path, bodies=INLINE)
    store.create_log(spec())
    yield store
    store.close()

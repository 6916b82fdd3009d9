"""Spark computes what the papers define: random scripts on real nodes, held against the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from anabranch.query.boxes import Diagram
from tests.property.diagrams import joins, script, stateless_and_windows
from tests.property.oracle import (
    batches_differ,
    contents_differ,
    ids_broken,
    last_punctuations_differ,
    promises_broken,
)
from tests.recording import record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("diagram", [stateless_and_windows, joins])
def test_a_run_agrees_with_the_reference(diagram: Callable[[], Diagram], seed: int, tmp_path: Path) -> None:
    random = Random(f"{diagram.__name__} {seed}")
    recording = record(diagram(), script(random, 60), tmp_path / "state", random)
    faults = [
        *contents_differ(recording),
        *batches_differ(recording),
        *last_punctuations_differ(recording),
        *promises_broken(recording),
        *ids_broken(recording),
    ]
    assert not faults, "\n".join(faults[:20])
    assert all(stream.tuples for stream in recording.streams.values()), "a stream stayed empty: the script is too tame"

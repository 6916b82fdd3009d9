"""The code blocks that talk to a node, run against one that runs the example query, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import anabranch as ab
from anabranch.node.node import Node
from anabranch.query.files import load
from tests.spark import running
from tests.unit.docs.pages import NODE, PAGES, ROOT, blocks

pytestmark = pytest.mark.spark

TALKING = [
    page
    for page in PAGES
    if page.name != "errors.md"  # its examples fail as they should, without Spark: tests/unit/docs/test_errors.py
    and any("node" in block.needs for block in blocks(page))
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    state = tmp_path_factory.mktemp("docs") / "state"
    with running(load(ROOT / "examples" / "slow_paths.py"), state, boundary_interval_us=500_000) as node:
        yield node


@pytest.fixture
def _readers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page follows a stream for ever; here it ends with the first batch that has rows."""
    follow = ab.Subscription.__iter__

    def until_rows(reading: ab.Subscription) -> Iterator[pa.RecordBatch]:
        for batch in follow(reading):
            yield batch
            if pc.any(pc.equal(batch.column("_kind"), int(ab.Kind.INSERTION))).as_py() and reading._follow:
                return

    monkeypatch.setattr(ab.Subscription, "__iter__", until_rows)


@pytest.mark.parametrize("page", TALKING, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("_readers_end")
def test_a_page_runs_against_a_node(page: Path, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.language != "python" or not block.is_run:
            continue
        exec(compile(block.text.replace(NODE, node.address), str(block), "exec"), names)

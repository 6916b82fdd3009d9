"""What several tests of nodes need."""

from __future__ import annotations

import pytest

from anabranch.node.hosted_part import HostedPart


@pytest.fixture
def no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of this test start no Spark: no stage ever runs."""
    monkeypatch.setattr(HostedPart, "_start_stages", lambda query: query._opened.set())

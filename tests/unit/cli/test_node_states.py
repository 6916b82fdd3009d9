"""Every state that a node can be in has a colour, and is on the page of the command line with what it means."""

from __future__ import annotations

import pytest

from anabranch.cli.colours import STATES
from anabranch.model.node_state import NodeState
from scripts.status_reference import PAGE


@pytest.mark.parametrize("state", NodeState)
def test_a_state_has_a_colour_and_is_documented(state: NodeState) -> None:
    assert state in STATES
    assert f"{state} ({state.meaning})" in PAGE.read_text()

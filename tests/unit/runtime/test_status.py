"""The status of a host as JSON, and what an older client makes of that of a newer host."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.errors import ConfigError
from anabranch.model.node_state import NodeState
from anabranch.runtime.status import from_plain, schema, to_plain
from tests.statuses import host_status

FEED = {"kind": "file", "state": "dozing", "speaks": False, "rows": 1, "position": "", "lag_us": 0, "error": None}


def plain(**said: Any) -> dict[str, Any]:
    queries = {"q": {"state": "dozing", "feeds": {"s": FEED}, "parts": {"entry": {"state": "dozing"}}}}
    return to_plain(host_status({"state": "dozing", "spark": {"state": "dozing"}, "queries": queries, **said}))


def test_states_that_only_newer_releases_have_are_read_and_shown_as_they_are() -> None:
    status = from_plain(plain())
    query = status.queries["q"]
    states = [status.state, query.state, query.parts["entry"].state, query.feeds["s"].state]
    assert [str(state) for state in states] == ["dozing"] * 4
    assert status.spark is not None
    assert status.spark.state == "dozing"
    assert status.state.meaning == "known to newer releases"
    assert to_plain(status) == plain()


def test_states_that_are_known_stay_those() -> None:
    assert from_plain(plain(state="running")).state is NodeState.RUNNING
    listed = str(schema())
    assert "standby" in listed
    assert "rebuilding" in listed


def test_a_state_that_is_no_text_is_refused() -> None:
    said = plain()
    said["queries"]["q"]["feeds"]["s"]["state"] = 7
    with pytest.raises(ConfigError, match=r"cannot be read: queries\.q\.feeds\.s\.state"):
        from_plain(said)
    with pytest.raises(ConfigError, match="cannot be read: state"):
        from_plain({**plain(), "state": 7})

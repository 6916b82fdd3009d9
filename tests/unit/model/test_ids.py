"""Ids have one text form each, which can be read back."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.model.ids import NO_QUERY, QueryId, ReplicaId, StreamId, named_in, query_of

PATHS = QueryId("paths")


@pytest.mark.parametrize("stream", ["ping", "ping.late", "box:pairs", "box:slow.1"])
def test_a_stream(stream: str) -> None:
    made = StreamId(PATHS, stream)
    assert str(made) == f"paths/{stream}"
    assert StreamId.parse(str(made)) == made
    assert query_of(str(made)) == (PATHS, stream)
    assert query_of(stream) == (None, stream)
    assert named_in(PATHS, stream) == named_in(PATHS, str(made)) == str(made)
    assert named_in(NO_QUERY, stream) == stream


@pytest.mark.parametrize(("host", "text"), [("boston", "paths/slow.1@boston#3"), ("", "paths/slow.1@#3")])
def test_a_replica(host: str, text: str) -> None:
    made = ReplicaId(PATHS, "slow.1", host, 3)
    assert str(made) == text
    assert ReplicaId.parse(text) == made


@pytest.mark.parametrize("text", ["", "paths", "paths/", "/ping"])
def test_what_is_no_stream(text: str) -> None:
    with pytest.raises(ConfigError, match="not the id of a stream"):
        StreamId.parse(text)


@pytest.mark.parametrize("text", ["paths", "paths/slow", "paths/slow@a", "paths/slow@a#x", "/slow@a#1", "paths/@a#1"])
def test_what_is_no_replica(text: str) -> None:
    with pytest.raises(ConfigError, match="not the id of a replica"):
        ReplicaId.parse(text)

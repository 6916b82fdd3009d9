"""What a host makes of a letter from another entry point, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from anabranch.core.shared_lane import Message, TeachAsked
from anabranch.node.dialer import Dialer
from anabranch.node.peers import Peers
from anabranch.node.shared_entry import SharedEntryPoint
from anabranch.query.assigned import AssignedQuery
from anabranch.transport.letters import AboutLane


class Entry:
    """An entry point that answers with what it was told."""

    def __init__(self, source: str, *, has_begun: bool) -> None:
        self.source = SimpleNamespace(name=source, lanes=("0",))
        self.has_begun = has_begun

    def heard(self, name: str, message: Message[bytes]) -> Sequence[Message[bytes]]:
        assert self.has_begun
        return [message]


def test_a_source_that_has_not_begun_keeps_no_letter_about_others_unanswered() -> None:
    part = SimpleNamespace(peers={"left": {"b": ""}, "right": {"b": ""}})
    peers = Peers(cast("AssignedQuery", part), cast("Dialer", None))
    for entry in (Entry("left", has_begun=True), Entry("right", has_begun=False)):
        peers.add(cast("SharedEntryPoint", entry))
    said = TeachAsked(sender="b", term=1, lives={"b": 1})
    letter = [AboutLane(source=source, lane="0", message=said) for source in ("right", "left")]
    assert [answer.source for answer in peers.hear("b", letter)] == ["left"]

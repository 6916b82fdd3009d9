"""What a node answers to replicas that ask for a copy too early, or in vain."""

from __future__ import annotations

import pytest

from anabranch.errors import NodeUnreachable, StreamNotFound
from anabranch.node.copying import Copies
from anabranch.transport.ports import CopyRequest


def ask(copies: Copies, stream: str) -> None:
    request = CopyRequest(stream=stream, reader="replica:b", life="1", position=None, punctuations={})
    copies.read_copy(request, lambda: False)


def test_a_node_that_starts_is_not_there_yet_and_one_without_the_copy_says_so() -> None:
    copies = Copies({}, coming={"box:loads"})
    with pytest.raises(NodeUnreachable, match=r"The copy of 'box:loads' is not there yet: the node is starting\."):
        ask(copies, "box:loads")
    with pytest.raises(StreamNotFound, match=r"This node has no copy of 'box:pings' for replicas\."):
        ask(copies, "box:pings")

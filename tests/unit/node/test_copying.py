"""What replicas are told of a copy that a node does not have, or does not have yet."""

from __future__ import annotations

import pytest

from anabranch.errors import NodeUnreachable, StreamNotFound
from anabranch.node.copying import Copies
from anabranch.transport.ports import CopyRequest


def test_a_copy_that_is_still_to_come_is_waited_for_and_another_is_a_mistake() -> None:
    copies = Copies({}, to_come={"box:a": ("c",)})
    with pytest.raises(NodeUnreachable, match="the node is starting"):
        copies.read_copy(CopyRequest(stream="box:a", reader="c", life="l", position=None, punctuations={}), bool)
    with pytest.raises(StreamNotFound, match=r"no copy of 'box:b' .* Check the deployment"):
        copies.read_copy(CopyRequest(stream="box:b", reader="c", life="l", position=None, punctuations={}), bool)

"""Digests cross the wire whole, and what is none is refused with a sentence."""

from __future__ import annotations

import pytest

from anabranch.core.telling import Range, Told
from anabranch.errors import ConfigError
from anabranch.transport import digests, wire

TOLD = {
    "e/0": Told(range=Range(begin_us=0, end_us=30), starts_us=[0, 20], rows=[1, 2], totals=[2**64 - 1, 0]),
    "e/1": Told(range=Range(begin_us=10, end_us=20), starts_us=[], rows=[], totals=[]),
}


def test_what_is_asked_and_told_comes_as_it_was() -> None:
    asked = {origin: each.range for origin, each in TOLD.items()}
    assert digests.ranges_of(wire.decode(wire.encode(digests.request_message("a", "sums", asked)))) == asked
    assert digests.answer_of(wire.decode(wire.encode(digests.answer_message(TOLD)))) == TOLD


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"begin": 0},
        {"begin": 0, "end": 10, "starts": [0], "rows": [1], "totals": []},
        {"begin": 0, "end": 10, "starts": [0], "rows": [1], "totals": [-1]},
        {"begin": 0, "end": 10, "starts": [0], "rows": [1], "totals": [2**64]},
        {"begin": 0, "end": 10, "starts": [0], "rows": [1], "totals": ["1"]},
    ],
)
def test_what_is_no_digest_is_refused(said: wire.Message) -> None:
    with pytest.raises(ConfigError):
        digests.answer_of({"digests": {"e/0": said}})

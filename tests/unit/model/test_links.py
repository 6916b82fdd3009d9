"""What links are like, what faults make of them, and how both are written."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.model.links import Cut, Delay, Heal, Link, LinkFault, LinkState, Slow, parse_rate

FILE = Link(delay_us=5_000, jitter_us=1_000, rate_bytes_s=1_000_000)


def test_faults_change_one_thing_each_and_heal_undoes_them_all() -> None:
    state = LinkState(link=FILE)
    faults: list[LinkFault] = [Delay(200_000), Cut(), Slow(125)]
    for fault in faults:
        state = state.after(fault, FILE)
    assert state == LinkState(link=Link(delay_us=200_000, jitter_us=0, rate_bytes_s=125), is_cut=True)
    assert state.after(Heal(), FILE) == LinkState(link=FILE)


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (Link(), "as it is"),
        (Link(delay_us=5_000), "delay 5ms"),
        (FILE, "delay 5ms ± 1ms, at most 8 Mbit/s"),
        (Link(rate_bytes_s=125), "at most 0.001 Mbit/s"),
    ],
)
def test_a_link_in_words(link: Link, text: str) -> None:
    assert str(link) == text
    assert link.is_plain == (text == "as it is")


def test_what_no_link_can_be() -> None:
    with pytest.raises(ConfigError, match="arrive before they were sent"):
        Delay(10, 11)
    with pytest.raises(ConfigError, match="cannot be negative"):
        Delay(10, -1)
    with pytest.raises(ConfigError, match="Cut it"):
        Slow(0)


@pytest.mark.parametrize(
    ("text", "bytes_s"), [("8bit/s", 1), ("500kbit/s", 62_500), (" 1.5 Mbit/s ", 187_500), ("1Gbit/s", 125_000_000)]
)
def test_rates(text: str, bytes_s: int) -> None:
    assert parse_rate(text) == bytes_s


@pytest.mark.parametrize("text", ["", "7", "1mbit/s", "1MB/s", "-1Mbit/s", "0Mbit/s", "7bit/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a rate"):
        parse_rate(text)

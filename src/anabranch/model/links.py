"""Links: how the way between two nodes behaves, and what can be done to it while it is in use.

A link behaves the same both ways. What a deployment file says of it is its healthy state; faults change that state one
property at a time, and ``Heal`` undoes all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from anabranch.errors import ConfigError
from anabranch.model.times import format_duration

_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMG]?)bit/s")
_BITS: Final = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How the way between two nodes is made to behave, in each direction; without a rate it takes what it takes."""

    delay_us: int = 0
    jitter_us: int = 0
    rate_bytes_s: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is put upon the way."""
        return self == Link()

    def __str__(self) -> str:
        parts = []
        if self.delay_us or self.jitter_us:
            parts.append(_delay_text(self.delay_us, self.jitter_us))
        if self.rate_bytes_s is not None:
            parts.append(_rate_text(self.rate_bytes_s))
        return ", ".join(parts) or "as it is"


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing arrives, in either direction, and nobody is told."""

    def __str__(self) -> str:
        return "cut"


@dataclass(frozen=True, slots=True)
class Delay:
    """Everything takes this long, and by so much more or less."""

    delay_us: int
    jitter_us: int = 0

    def __post_init__(self) -> None:
        if self.jitter_us < 0:
            raise ConfigError(
                "Jitter cannot be negative.", remedy="Write how far the delay varies in either direction."
            )
        if self.jitter_us > self.delay_us:
            raise ConfigError(
                "The jitter is larger than the delay: some messages would arrive before they were sent.",
                remedy="Raise the delay, or lower the jitter.",
            )

    def __str__(self) -> str:
        return _delay_text(self.delay_us, self.jitter_us)


@dataclass(frozen=True, slots=True)
class Slow:
    """No more than this goes through."""

    rate_bytes_s: int

    def __post_init__(self) -> None:
        if self.rate_bytes_s < 1:
            raise ConfigError("A link with a rate of zero is cut.", remedy="Cut it, or give it a rate.")

    def __str__(self) -> str:
        return _rate_text(self.rate_bytes_s)


@dataclass(frozen=True, slots=True)
class Heal:
    """Back to what the deployment file says."""

    def __str__(self) -> str:
        return "heal"


LinkFault = Cut | Delay | Slow | Heal


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """How a link is now."""

    link: Link
    is_cut: bool = False

    def after(self, fault: LinkFault, healthy: Link) -> LinkState:
        match fault:
            case Cut():
                return replace(self, is_cut=True)
            case Delay(delay_us, jitter_us):
                return replace(self, link=replace(self.link, delay_us=delay_us, jitter_us=jitter_us))
            case Slow(rate_bytes_s):
                return replace(self, link=replace(self.link, rate_bytes_s=rate_bytes_s))
            case Heal():
                return LinkState(link=healthy)


def parse_rate(text: str) -> int:
    """``"500kbit/s"``, ``"1.5Mbit/s"`` as bytes a second."""
    match = _RATE.fullmatch(text.strip())
    rate = int(float(match[1]) * _BITS[match[2]] / 8) if match else 0
    if not rate:
        raise ConfigError(f"{text!r} is not a rate.", remedy="Write a number and a unit: 500kbit/s, 10Mbit/s, 1Gbit/s.")
    return rate


def _delay_text(delay_us: int, jitter_us: int) -> str:
    jitter = f" ± {format_duration(jitter_us)}" if jitter_us else ""
    return f"delay {format_duration(delay_us)}{jitter}"


def _rate_text(rate_bytes_s: int) -> str:
    return f"at most {rate_bytes_s * 8 / 1e6:g} Mbit/s"

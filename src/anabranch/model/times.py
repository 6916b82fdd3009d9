"""Stream time and durations: integers of microseconds since 1970, UTC.

Spark's watermark has a resolution of milliseconds and starts at 0. So windows are whole milliseconds, and a tuple's
time lies after 1970 and before the time that a closed lane counts as.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from anabranch.errors import ConfigError

MS: Final = 1_000
SECOND: Final = 1_000_000
MIN_TIME_US: Final = 1
"""The earliest stream time: 0 is where Spark's watermark starts."""
CLOSED_US: Final = 253_370_764_800 * SECOND
"""The punctuation of a closed lane, 9999-01-01: large, finite, and still a timestamp for every tool."""

_UNITS: Final = {
    "us": 1,
    "ms": MS,
    "s": SECOND,
    "m": 60 * SECOND,
    "min": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86_400 * SECOND,
}
_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|min|m|h|d)\s*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """``"10s"``, ``"500ms"``, ``"1.5h"`` as microseconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a duration.", remedy="Write a number and a unit: 500ms, 10s, 5m, 1.5h or 2d."
        )
    whole, _, fraction = match[1].partition(".")
    unit = _UNITS[match[2]]
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def format_duration(us: int) -> str:
    """The shortest text that ``parse_duration`` reads back as the same number."""
    for unit in ("d", "h", "m", "s", "ms"):
        if us and us % _UNITS[unit] == 0:
            return f"{us // _UNITS[unit]}{unit}"
    return f"{us}us"


def to_datetime(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def from_datetime(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_time(us: int) -> str:
    """Stream time for people; a closed lane reads as such."""
    if us >= CLOSED_US:
        return "closed"
    return to_datetime(us).strftime("%Y-%m-%d %H:%M:%S.%f")


def floor_ms(us: int) -> int:
    """What Spark's watermark makes of a time: whole milliseconds, rounded down."""
    return us // MS * MS

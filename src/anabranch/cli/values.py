"""What people write on a command line, as values: durations, rates, sizes, ``key=value``.

A mistake is an error of the arguments, so that the parser can say which option it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import typer

from anabranch.errors import ConfigError
from anabranch.model.links import parse_rate
from anabranch.model.times import parse_duration

_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWER: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def duration_us(text: str) -> int:
    """``60s``, ``1.5h`` as microseconds; 0 is not a duration here."""
    try:
        us = parse_duration(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    if us == 0:
        raise typer.BadParameter(f"{text!r} is not a duration above zero.")
    return us


def wait_us(text: str) -> int:
    """The same for a wait, which may be none at all: ``0s``."""
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def rate_bytes_s(text: str) -> int:
    """``500kbit/s``, ``1.5Mbit/s`` as bytes a second."""
    try:
        return parse_rate(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def size_bytes(text: str) -> int:
    """``1048576``, ``256MB``, ``256MiB``, ``1.5GB`` as bytes."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size. Write bytes, or a number and a unit: 256MB, 8GiB.")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** _POWER[match[2].lower()])


def settings(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` of several options as one mapping."""
    found = dict(pair.partition("=")[::2] for pair in pairs)
    for pair in pairs:
        if "=" not in pair or pair.startswith("="):
            raise typer.BadParameter(f"{pair!r} is not key=value.", param_hint="--conf")
    return found

"""How much of what is drawn by chance a test tries: some of it in every run, more in the long one.

A run of ``make test`` tries the same cases every time, so it shows what a change has broken; what nobody has seen yet
is looked for by ``make test-long``, ``make sim`` and ``make fuzz``.
"""

from __future__ import annotations

from hypothesis import settings

SHORT = "short"
"""The profile of every run."""


def is_long() -> bool:
    """Whether this is not the run of every day, but one with another profile (``tests/conftest.py``)."""
    return settings.get_current_profile_name() != SHORT


def tries(short: int, *, long: int) -> int:
    """So many in every run, and so many in the long one."""
    return long if is_long() else short

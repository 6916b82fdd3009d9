"""A tuple of a stream, as the reference sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.identity import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuple:
    """Header and columns. Timestamps are microseconds, dates are days since 1970, decimals are ``Decimal``."""

    origin: str
    stime: int
    tid: int
    values: Mapping[str, object]

    @property
    def identity(self) -> tuple[str, int, int]:
        """What makes it one tuple, on every replica."""
        return self.origin, self.stime, self.tid

    @property
    def identity_parts(self) -> tuple[Part, Part, Part]:
        """The identity, as it is hashed into another."""
        return ("string", self.origin), ("bigint", self.stime), ("bigint", self.tid)

    @property
    def content(self) -> tuple[object, ...]:
        """Hashable, and equal for equal tuples: definition 1 counts these. NaN equals NaN here, as it does in Spark."""
        cells = ((name, "NaN" if _is_nan(value) else value) for name, value in self.values.items())
        return *self.identity, *cells


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)

"""The types that a random stream may have, values of them that are easy to get wrong, and their form in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "string": (None, "", "a", "b", "B", "ab", "é"),
    "int": (None, 0, 1, 2, 3, -3),
    "bigint": (None, 0, 1, -7, 1 << 40),
    # Sums of such numbers depend on the order. Diagrams decide by all of them, so that they are exact.
    "double": (None, 0.0, -0.0, 0.1, 0.3, 0.25, 1.5, -2.75, 1e12, -1e12, 1e-7, float("nan")),
    "boolean": (None, True, False),
    "decimal(6,2)": (None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.50")),
    "date": (None, date(1970, 1, 1), date(2026, 2, 28), date(1999, 12, 31)),
    "timestamp": (None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=UTC)),
}

_READ: Final[Mapping[str, Any]] = {
    "decimal(6,2)": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
}


def draw(random: Random, type_name: str) -> Any:
    return random.choice(VALUES[type_name])


def written(value: Any) -> Any:
    """A value as plain data, which ``read`` turns back."""
    return str(value) if isinstance(value, Decimal | date) else value


def read(value: Any, type_name: str) -> Any:
    return value if value is None or type_name not in _READ else _READ[type_name](value)

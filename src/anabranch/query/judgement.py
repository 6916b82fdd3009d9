"""The classes of operators, the orders in which a mode sees streams, and a judgement of one box.

Section 3.2 and figure 3 of the high-availability paper. Which class a kind of box has is said in ``kinds``; what
follows from it for a query and a mode, in ``classes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class OperatorClass(IntEnum):
    """In the order of the paper's containment: a later class is the more general one."""

    REPEATABLE = 0
    CONVERGENT_CAPABLE = 1
    DETERMINISTIC = 2
    ARBITRARY = 3

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


class Order(Enum):
    """What the order of tuples in a stream means in a mode."""

    ARRIVAL = "by arrival"
    NONE = "in race"
    CANONICAL = "in dpc"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The class of a box, and why."""

    operator_class: OperatorClass
    reason: str

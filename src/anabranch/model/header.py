"""The header columns of a stream, and what kinds of tuple there are.

A stream is a sequence of record batches: header columns first, data columns after. User columns never begin with ``_``,
so the two cannot collide. In storage and in Spark a small integer stands for ``_origin`` (see ``names.Origins``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """What a tuple of a stream is."""

    INSERTION = 0  # a stable tuple
    TENTATIVE = 1  # a tuple that may be undone
    BOUNDARY = 2  # a punctuation: (_origin, _stime)
    UNDO = 3  # forget the tentative tuples of an epoch
    REC_DONE = 4  # corrections have caught up


KIND: Final = "_kind"
ID: Final = "_id"
TID: Final = "_tid"
STIME: Final = "_stime"
ORIGIN: Final = "_origin"

HEADER: Final = (KIND, ID, TID, STIME, ORIGIN)
RESERVED_PREFIX: Final = "_"

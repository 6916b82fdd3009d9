"""Every kind of box, by its boxes and by its name: the one place that lists them.

``kind`` is exhaustive, and mypy says so when a box is added that has no kind here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from anabranch.query.boxes import (
    Aggregate,
    Box,
    Dedup,
    Drop,
    Filter,
    Join,
    Latest,
    Lookup,
    Map,
    Python,
    Resample,
    Session,
    Slide,
    Source,
    Tumble,
    Union,
    WSort,
    XSection,
)
from anabranch.query.kinds.joins import JOIN, LATEST, RESAMPLE
from anabranch.query.kinds.keepers import DEDUP, WSORT
from anabranch.query.kinds.kind import Kind
from anabranch.query.kinds.lookups import LOOKUP
from anabranch.query.kinds.python import PYTHON
from anabranch.query.kinds.source import SOURCE
from anabranch.query.kinds.steps import DROP, FILTER, MAP, UNION
from anabranch.query.kinds.windows import AGGREGATE, SESSION, SLIDE, TUMBLE, XSECTION

KINDS: Final[Mapping[str, Kind[Any]]] = {
    each.makes.__name__.lower(): each
    for each in (
        SOURCE,
        FILTER,
        MAP,
        PYTHON,
        DROP,
        UNION,
        LOOKUP,
        AGGREGATE,
        SESSION,
        TUMBLE,
        SLIDE,
        XSECTION,
        JOIN,
        LATEST,
        RESAMPLE,
        DEDUP,
        WSORT,
    )
}
"""By what the text form calls them."""


def kind(box: Box) -> Kind[Any]:
    match box:
        case Source():
            return SOURCE
        case Filter():
            return FILTER
        case Map():
            return MAP
        case Python():
            return PYTHON
        case Drop():
            return DROP
        case Union():
            return UNION
        case Lookup():
            return LOOKUP
        case Aggregate():
            return AGGREGATE
        case Tumble():
            return TUMBLE
        case Slide():
            return SLIDE
        case XSection():
            return XSECTION
        case Join():
            return JOIN
        case Session():
            return SESSION
        case Latest():
            return LATEST
        case Resample():
            return RESAMPLE
        case Dedup():
            return DEDUP
        case WSort():
            return WSORT
        case _:
            assert_never(box)


def sql_of(box: Box) -> tuple[str, ...]:
    """The predicates and select lists of a box."""
    return kind(box).sql(box)


def waits_us(box: Box) -> int | None:
    """None if the box emits at once; otherwise how far after the watermark it may promise, in microseconds."""
    return kind(box).waits_us(box)

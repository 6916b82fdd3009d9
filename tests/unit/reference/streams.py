"""Short ways to write tuples and diagrams in tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from anabranch.query.boxes import Aggregate, Arrow, Box, Column, Diagram, Join, Output, Source, Union
from anabranch.reference.tuples import Tuple


def row(origin: str, stime: int, tid: int, **values: object) -> Tuple:
    return Tuple(origin=origin, stime=stime, tid=tid, values=values)


def contents(tuples: Iterable[Tuple]) -> Counter[tuple[object, ...]]:
    """Definition 1 of the racing paper."""
    return Counter(each.content for each in tuples)


def source(name: str, *columns: str, producers: tuple[str, ...] = ()) -> Source:
    """Columns as ``"cpu double"``."""
    pairs = (column.split() for column in columns)
    return Source(name=name, schema=tuple(Column(pair[0], pair[1]) for pair in pairs), producers=producers)


def diagram(*boxes: Box, **outputs: Arrow | str) -> Diagram:
    return Diagram(
        name="q",
        boxes=boxes,
        outputs=tuple(
            Output(name=name, input=Arrow(arrow) if isinstance(arrow, str) else arrow)
            for name, arrow in outputs.items()
        ),
    )


def union(name: str, *below: str) -> Union:
    return Union(name=name, inputs=tuple(Arrow(each) for each in below))


def join(name: str, left: str, right: str, on: str, within_us: int) -> Join:
    return Join(name=name, left=Arrow(left), right=Arrow(right), on=on, within_us=within_us)


def counting(name: str, below: str, columns: str, by: tuple[str, ...], rows: int, every_rows: int) -> Aggregate:
    return Aggregate(name=name, input=Arrow(below), columns=columns, by=by, rows=rows, every_rows=every_rows)


def aggregate(
    name: str, below: str, columns: str, by: tuple[str, ...], window_us: int, every_us: int | None = None
) -> Aggregate:
    return Aggregate(
        name=name, input=Arrow(below), columns=columns, by=by, window_us=window_us, every_us=every_us or window_us
    )

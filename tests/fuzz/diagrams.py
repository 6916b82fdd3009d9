"""Random diagrams: sources with random columns, and up to a number of boxes, all of which reach an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any, Final

import anabranch as ab
from anabranch.query.boxes import Arrow, Column, Diagram, Schema
from anabranch.query.floats import float_columns
from anabranch.query.graph import order
from anabranch.query.schemas import add_outputs
from tests.fuzz.expressions import LITERALS, aggregate, predicate, value
from tests.fuzz.values import VALUES

MOST_BOXES: Final = 8
MOST_COLUMNS: Final = 6
TIME: Final = "at"
WINDOWS: Final = ("1s", "2s", "3s", "5s", "2500ms")
GAPS: Final = ("1ms", "500ms", "1s", "1500ms")
_TABLE_TYPES: Final = tuple(name for name in VALUES if name in ("boolean", "int", "bigint", "double", "string"))
"""Types whose values a query can write into a table."""
WITHIN: Final = ("500ms", "1s", "2s", "1500ms")


def random_diagram(random: Random, most_boxes: int = MOST_BOXES) -> Diagram:
    """A valid diagram of at most this many boxes besides its sources."""
    return _Builder(random, random.randint(1, most_boxes)).build()


class _Builder:
    def __init__(self, random: Random, boxes: int) -> None:
        self._random = random
        self._left = boxes
        self._query = ab.Query("fuzzed")
        self._names = count(1)
        self._streams: list[ab.Stream] = []

    def build(self) -> Diagram:
        for number in range(self._random.choice((1, 2, 2, 3))):
            self._source(number)
        makers: Sequence[Callable[[], None]] = (
            self._filter,
            self._map,
            self._union,
            self._drop,
            self._lookup,
            self._aggregate,
            self._aggregate,
            self._count,
            self._sum,
            self._join,
            self._join,
            self._dedup,
            self._session,
            self._latest,
            self._tumble,
            self._slide,
            self._xsection,
            self._resample,
            self._wsort,
            self._python,
        )
        while self._left > 0:
            self._random.choice(makers)()
        self._decide_by_every_sum()
        read = {arrow.box for arrow in self._used()}
        for stream in self._streams:  # every box that nobody reads, and some others
            if stream.arrow.box not in read or self._random.random() < 0.15:
                self._query.output(f"out{next(self._names)}", stream)
        return self._query.checked()

    def _source(self, number: int) -> None:
        types = self._random.choices([*VALUES, "double", "double"], k=self._random.randint(1, 4))
        columns = [f"s{number}c{index} {name}" for index, name in enumerate(types)]
        producers = self._random.choice(((), (), ("left", "right")))
        stream = self._query.source(
            f"source{number}",
            ", ".join([*columns, f"{TIME} timestamp"]),
            time=TIME,
            disorder=self._random.choice((None, "500ms", "2s")),
            producers=producers,
        )
        self._streams.append(stream)

    def _used(self) -> set[Arrow]:
        return {arrow for box in self._query.diagram().boxes for arrow in box.inputs}

    def _pick(self) -> ab.Stream:
        """Rather one that nobody reads yet."""
        used = self._used()
        fresh = [stream for stream in self._streams if stream.arrow not in used]
        return self._random.choice(fresh if fresh and self._random.random() < 0.7 else self._streams)

    def _columns(self, stream: ab.Stream) -> Schema:
        found: dict[Arrow, Schema] = {}
        for box in order(self._query.diagram()):
            add_outputs(found, box)
        return found[stream.arrow]

    def _name(self, kind: str) -> str:
        self._left -= 1
        return f"{kind}{next(self._names)}"

    def _filter(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        predicates = [predicate(self._random, columns) for _ in range(self._random.choice((1, 1, 2)))]
        made = stream.filter(*predicates, otherwise=self._random.random() < 0.5, name=self._name("filter"))  # type: ignore[call-overload]
        self._streams += made if isinstance(made, tuple) else (made,)

    def _map(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        chosen = self._random.sample(columns, self._random.randint(1, min(MOST_COLUMNS, len(columns))))
        made = [f"{value(self._random, columns, column)} AS c{next(self._names)}" for column in chosen]
        if self._random.random() < 0.2:
            made.append(f"_stime AS when{next(self._names)}")
        self._streams.append(stream.map(", ".join(made), name=self._name("map")))

    def _union(self) -> None:
        """Of streams with the same columns as they are, or of two brought to one column."""
        first = self._pick()
        columns = self._columns(first)
        alike = [each for each in self._streams if [c.type for c in self._columns(each)] == [c.type for c in columns]]
        alike = [each for each in alike if [c.name for c in self._columns(each)] == [c.name for c in columns]]
        if len(alike) > 1 or self._random.random() < 0.3:
            others = self._random.choices(alike, k=self._random.choice((1, 1, 2)))
        else:
            second = self._pick()
            pair = _meet(self._random, columns, self._columns(second))
            if pair is None:
                return
            name = f"c{next(self._names)}"
            first = first.map(f"{pair[0].name} AS {name}", name=self._name("map"))
            others = [second.map(f"{pair[1].name} AS {name}", name=self._name("map"))]
        self._streams.append(self._query.union(first, *others, name=self._name("union")))

    def _aggregate(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(0, min(2, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 3))]
        every = self._random.choice((None, None, "1s", "500ms"))
        self._streams.append(
            stream.aggregate(
                ", ".join(made),
                by=[key.name for key in keys],
                window=self._random.choice(WINDOWS),
                every=every,
                emit_rows=self._random.choice((None, None, 1, 3)) if every is None else None,
                scale=self._scale(made),
                name=self._name("aggregate"),
            )
        )

    def _count(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(0, min(1, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 2))]
        size = self._random.choice((1, 2, 3, 5))
        every = self._random.choice((None, self._random.randint(1, size)))
        self._streams.append(
            stream.aggregate(
                ", ".join(made),
                by=[key.name for key in keys],
                rows=size,
                every_rows=every,
                timeout=self._random.choice((None, *GAPS)) if every is None else None,
                emit_rows=self._random.choice((None, size - 1)) if every is None and size > 1 else None,
                scale=self._scale(made),
                name=self._name("count"),
            )
        )

    def _sum(self) -> None:
        """Of doubles, in windows of either kind, and a box that decides by it."""
        stream = self._pick()
        doubles = [column.name for column in self._columns(stream) if column.type == "double"]
        if not doubles:
            return
        function = self._random.choice(("sum", "avg"))
        made = f"{function}({self._random.choice(doubles)}) AS sum{next(self._names)}"
        name = self._name("sum")
        if self._random.random() < 0.5:
            summed = stream.aggregate(made, window=self._random.choice(WINDOWS), scale=self._scale([made]), name=name)
        else:
            summed = stream.aggregate(made, rows=self._random.choice((2, 3)), scale=self._scale([made]), name=name)
        columns = self._columns(summed)
        decided = self._name("decided")
        match self._random.choice(("filter", "drop", "group")):
            case "filter":
                self._streams += summed.filter(predicate(self._random, columns), otherwise=True, name=decided)
            case "drop":
                self._streams.append(summed.drop(predicate(self._random, columns), name=decided))
            case _:
                many = f"count(*) AS n{next(self._names)}"
                self._streams.append(summed.aggregate(many, by=columns[0].name, window="1s", name=decided))

    def _scale(self, made: Sequence[str]) -> int | None:
        """Now and then, where there is something to add."""
        adds = any(each.startswith(("sum", "avg", "coalesce(avg")) for each in made)
        return self._random.choice((None, None, 2, 12)) if adds else None

    def _decide_by_every_sum(self) -> None:
        """What nothing decides by is rounded in the order of addition, and no two runs need agree on it."""
        for column in float_columns(self._query.diagram()):
            if column.scale is None:
                stream = ab.Stream(self._query, Arrow(column.box.name))
                condition = f"{column.column} > {self._random.choice(LITERALS['double'])}"
                made = stream.filter(condition, otherwise=True, name=f"decide{next(self._names)}")
                self._streams += made

    def _drop(self) -> None:
        stream = self._pick()
        name = self._name("drop")
        if self._random.random() < 0.5:
            self._streams.append(stream.drop(predicate(self._random, self._columns(stream)), name=name))
        else:
            fraction = self._random.choice((0.1, 0.5, 0.9))
            self._streams.append(stream.drop(fraction, seed=self._random.randint(0, 9), name=name))

    def _lookup(self) -> None:
        """In a table with keys of one column or two, by one of these or by any other column."""
        stream = self._pick()
        usable = [column for column in self._columns(stream) if column.type in _TABLE_TYPES]
        if not usable:
            return
        met = self._random.choice(usable)
        types = [met.type or "", *self._random.choices(list(_TABLE_TYPES), k=self._random.randint(0, 2))]
        columns = [f"c{next(self._names)}" for _ in types]
        number = f"c{next(self._names)}"
        rows = [
            (*(self._random.choice((*VALUES[type_], None)) for type_ in types), index)
            for index in range(self._random.choice((0, 1, 3, 8)))
        ]
        keys: tuple[str, ...] = (number,)
        if met.type != "double" and self._random.random() < 0.5:  # each value of the column in one row only
            keys = (columns[0],)
            rows = list({row[0]: row for row in rows if row[0] is not None}.values())
        schema = ", ".join(f"{name} {type_}" for name, type_ in zip((*columns, number), (*types, "int"), strict=True))
        table = self._query.table(f"table{next(self._names)}", schema, key=keys, rows=rows)
        on = f"{met.name} = {columns[0]}"
        outer = self._random.random() < 0.5
        self._streams.append(stream.lookup(table, on=on, outer=outer, name=self._name("lookup")))

    def _session(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(0, min(2, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 2))]
        self._streams.append(
            stream.session(
                ", ".join(made),
                by=[key.name for key in keys],
                gap=self._random.choice(GAPS),
                emit_rows=self._random.choice((None, None, 1, 2)),
                scale=self._scale(made),
                name=self._name("session"),
            )
        )

    def _tumble(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(1, min(2, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 2))]
        self._streams.append(
            stream.tumble(
                ", ".join(made),
                by=[key.name for key in keys],
                timeout=self._random.choice((*GAPS, "5s")),  # without one, a run lasts into the next epoch
                emit_rows=self._random.choice((None, None, 1, 2)),
                scale=self._scale(made),
                name=self._name("tumble"),
            )
        )

    def _slide(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(0, min(2, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 2))]
        window: dict[str, Any] = {"window": self._random.choice(WINDOWS)}
        advance: dict[str, Any] = {}
        if self._random.random() < 0.5:
            window = {"rows": self._random.choice((1, 2, 3, 5))}
            advance = self._random.choice(({}, {"every": "1s"}, {"every_rows": 2}))
        elif self._random.random() < 0.3:
            advance = {"every_rows": self._random.choice((2, 3))}
        elif self._random.random() < 0.4:
            window, advance = (
                {"window": self._random.choice(("1s", "2s"))},
                {"every": self._random.choice(("700ms", "1s"))},
            )
        self._streams.append(
            stream.slide(
                ", ".join(made),
                by=[key.name for key in keys],
                scale=self._scale(made),
                name=self._name("slide"),
                **window,
                **advance,
            )
        )

    def _xsection(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(0, min(2, len(columns))))
        made = [aggregate(self._random, columns, next(self._names)) for _ in range(self._random.randint(1, 2))]
        self._streams.append(
            stream.xsection(
                ", ".join(made),
                by=[key.name for key in keys],
                window=self._random.choice(("500ms", "1s", "2s")),
                every=self._random.choice((None, "1s", "700ms")),
                expire=self._random.choice((None, "2s", "3500ms")),
                scale=self._scale(made),
                name=self._name("xsection"),
            )
        )

    def _wsort(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(1, min(2, len(columns))))
        timeout = self._random.choice(GAPS)
        self._streams += stream.wsort([key.name for key in keys], timeout=timeout, name=self._name("wsort"))

    def _python(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        if any(column.name == "text" for column in columns):  # it has been there already
            return
        reads = self._random.sample(columns, self._random.randint(1, min(3, len(columns))))
        self._streams.append(
            stream.python(
                "tests.python_functions:written",
                "text string, nulls int",
                reads=[column.name for column in reads] if self._random.random() < 0.7 else (),
                deterministic=True,
                name=self._name("python"),
            )
        )

    def _dedup(self) -> None:
        stream = self._pick()
        columns = self._columns(stream)
        keys = self._random.sample(columns, self._random.randint(1, min(2, len(columns))))
        horizon = self._random.choice(WINDOWS)
        self._streams.append(stream.dedup([key.name for key in keys], horizon=horizon, name=self._name("dedup")))

    def _latest(self) -> None:
        left, right = self._pick(), self._renamed(self._pick())
        pair = _meet(self._random, self._columns(left), self._columns(right))
        self._streams.append(
            left.latest(
                right,
                on=f"{pair[0].name} = {pair[1].name}" if pair and self._random.random() < 0.8 else None,
                outer=self._random.random() < 0.5,
                within=self._random.choice((None, *WITHIN)),
                name=self._name("latest"),
            )
        )

    def _resample(self) -> None:
        left, right = self._pick(), self._renamed(self._pick())
        columns = self._columns(right)
        values = [column.name for column in columns if column.type in ("int", "bigint", "double", "decimal(6,2)")]
        if not values:
            self._streams.append(right)
            return
        pair = _meet(self._random, self._columns(left), columns)
        self._streams.append(
            left.resample(
                right,
                self._random.sample(values, self._random.randint(1, len(values))),
                how=self._random.choice(("linear", "previous", "nearest", "mean")),
                within=self._random.choice(WITHIN),
                on=f"{pair[0].name} = {pair[1].name}" if pair and self._random.random() < 0.7 else None,
                name=self._name("resample"),
            )
        )

    def _renamed(self, stream: ab.Stream) -> ab.Stream:
        """Columns of both sides of a join need different names."""
        columns = self._columns(stream)
        chosen = self._random.sample(columns, min(3, len(columns)))
        made = ", ".join(f"{column.name} AS c{next(self._names)}" for column in chosen)
        return stream.map(made, name=self._name("map"))

    def _join(self) -> None:
        left, right = self._pick(), self._renamed(self._pick())
        columns = self._columns(left)
        pair = _meet(self._random, columns, self._columns(right))
        both = (*columns, *self._columns(right))
        if pair is None or self._random.random() < 0.15:
            on = predicate(self._random, both)
        else:
            on = f"{pair[0].name} = {pair[1].name}"
            if self._random.random() < 0.4:
                on += f" AND ({predicate(self._random, both, 1)})"
        within = self._random.choice(WITHIN)
        self._streams.append(left.join(right, on=on, within=within, name=self._name("join")))


def _meet(random: Random, left: Schema, right: Schema) -> tuple[Column, Column] | None:
    """A column of each side, of one type."""
    pairs = [(mine, other) for mine in left for other in right if mine.type is not None and mine.type == other.type]
    return random.choice(pairs) if pairs else None

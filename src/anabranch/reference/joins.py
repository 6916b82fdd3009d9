"""Join, Latest and Resample: tuples of two streams put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from anabranch.limits import SUM_SCALE
from anabranch.model.identity import identity_hash
from anabranch.query import boxes
from anabranch.query.sql import column_pairs
from anabranch.reference.box import Columns, Emitted, Group, Groups, Promises, ReferenceBox, row_of
from anabranch.reference.casts import cast
from anabranch.reference.exact import exact_sum
from anabranch.reference.expressions import compile_expression, parse
from anabranch.reference.ordered import OrderedBox
from anabranch.reference.tuples import Tuple


class JoinBox(ReferenceBox):
    """Figure 2: match a new tuple with what the other input brought, emit at once, remember it while it is of use."""

    def __init__(self, box: boxes.Join, left: Columns, right: Columns, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        self.columns = {**left, **right}
        self._name = box.name
        self._within_us = box.within_us
        self._on = compile_expression(parse(box.on), {name.lower(): type_ for name, type_ in self.columns.items()})
        self._buffers: tuple[list[Tuple], list[Tuple]] = ([], [])

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        made: list[Tuple] = []
        for each in tuples:
            for other in self._buffers[1 - port]:
                left, right = (each, other) if port == 0 else (other, each)
                if (
                    abs(left.stime - right.stime) < self._within_us
                    and self._on.of(row_of(left) | row_of(right)) is True
                ):
                    made.append(self._concatenate(left, right))
            self._buffers[port].append(each)
        return {0: made}

    def _concatenate(self, left: Tuple, right: Tuple) -> Tuple:
        return Tuple(
            origin=self._name,
            stime=max(left.stime, right.stime),
            tid=identity_hash("join", self._name, [*left.identity_parts, *right.identity_parts]),
            values={**left.values, **right.values},
        )

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        oldest = self._smallest(port) - self._within_us
        self._buffers[1 - port][:] = [each for each in self._buffers[1 - port] if each.stime >= oldest]
        return {}

    def promises(self) -> Promises:
        """A pair is as late as the later of the two, and each of them is at or above what its input promised."""
        return {self._name: min(self._smallest(0), self._smallest(1))}


class LatestBox(OrderedBox):
    """Remember the newest tuple of the second input for each key; each tuple of the first gets what is there."""

    def __init__(self, box: boxes.Latest, left: Columns, right: Columns, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        self.columns = {**left, **right}
        self._box = box
        pairs = (box.on and column_pairs(box.on, list(left), list(right))) or []
        self._keys = Groups([one for one, _ in pairs], left), Groups([other for _, other in pairs], right)
        self._nothing = dict.fromkeys(right)
        self._newest: dict[Group, Tuple] = {}

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        key = self._keys[port].of(each)
        if port == 1:
            self._newest[key] = each
            return
        partner = self._newest.get(key) if None not in key else None  # NULL equals nothing
        if partner is not None and self._box.within_us is not None:
            partner = partner if each.stime - partner.stime < self._box.within_us else None
        if partner is not None or self._box.outer:
            yield Tuple(
                origin=self._box.name,
                stime=each.stime,
                tid=identity_hash("latest", self._box.name, each.identity_parts),
                values={**each.values, **(self._nothing if partner is None else partner.values)},
            )

    def promises(self) -> Promises:
        """Every tuple of the first input before the watermark has its partner, so the next is at or after it."""
        return {self._box.name: self.watermark_us}


class ResampleBox(OrderedBox):
    """Each tuple of the first input waits until all of the second that count for it are known."""

    def __init__(self, box: boxes.Resample, left: Columns, right: Columns, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        spelled = {name.lower(): name for name in right}
        self._made = [spelled[name.lower()] for name in box.columns]
        self.columns = {**left, **dict.fromkeys(self._made, "double")}
        self._types = right
        self._box = box
        pairs = (box.on and column_pairs(box.on, list(left), list(right))) or []
        self._keys = Groups([one for one, _ in pairs], left), Groups([other for _, other in pairs], right)
        self._seconds: dict[Group, list[Tuple]] = {}
        self._firsts: list[Tuple] = []

    def _take(self, port: int, each: Tuple) -> Iterable[Tuple]:
        if port == 1:
            self._seconds.setdefault(self._keys[1].of(each), []).append(each)
            return ()
        if self._box.waits_for_us:
            self._firsts.append(each)
            return ()
        return [self._resampled(each)]

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        ready = [each for each in self._firsts if each.stime + self._box.waits_for_us <= time_us]
        self._firsts = [each for each in self._firsts if each.stime + self._box.waits_for_us > time_us]
        yield from map(self._resampled, ready)

    def _resampled(self, each: Tuple) -> Tuple:
        key = self._keys[0].of(each)
        around = [
            other
            for other in (self._seconds.get(key, []) if None not in key else [])  # NULL equals nothing
            if abs(other.stime - each.stime) < self._box.within_us
        ]
        return Tuple(
            origin=self._box.name,
            stime=each.stime,
            tid=identity_hash("resample", self._box.name, each.identity_parts),
            values={**each.values, **{name: self._value(name, each.stime, around) for name in self._made}},
        )

    def _value(self, name: str, time: int, around: Sequence[Tuple]) -> float | None:
        """NULL does not count."""
        values: list[tuple[int, float]] = [
            (other.stime, cast(other.values[name], self._types[name], "double"))
            for other in around
            if other.values[name] is not None
        ]
        before = [value for value in values if value[0] <= time]
        after = [value for value in values if value[0] > time]
        match self._box.how:
            case "mean":
                return exact_sum([value for _, value in values], SUM_SCALE) / len(values) if values else None
            case "previous":
                return before[-1][1] if before else None
            case "nearest" if before and after:
                return before[-1][1] if time - before[-1][0] <= after[0][0] - time else after[0][1]
            case "nearest":
                return before[-1][1] if before else after[0][1] if after else None
        return _between(before[-1:], after[:1], time)

    def promises(self) -> Promises:
        """What is promised is as far behind the watermark as a tuple of the first input waits for the second."""
        waits_us = self._box.waits_for_us
        promised = max(0, self.watermark_us + 1 - waits_us) if waits_us and self.watermark_us else self.watermark_us
        return {self._box.name: promised}


def _between(before: list[tuple[int, float]], after: list[tuple[int, float]], time: int) -> float | None:
    """On the straight line from the value before to the one after; the one that is there, if one is."""
    if before and before[0][0] == time:
        return before[0][1]
    if not before or not after:
        return None
    (first, low), (last, high) = before[0], after[0]
    return low + (high - low) * ((time - first) / (last - first))

"""Dedup and WSort: boxes that hold state and let tuples through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.model.times import format_duration
from anabranch.query.boxes import Dedup, Schema, WSort
from anabranch.query.checks import check_by, check_window
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, DURATION, NAMES, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report, candidates
from anabranch.query.value_flow import Columns, Flow


class DedupKind(Kind[Dedup]):
    makes = Dedup
    keys = (
        Key(name="input", form=ARROW),
        Key(name="by", form=NAMES),
        Key(name="horizon", attribute="horizon_us", form=DURATION),
    )
    shape = (">", "]")
    meaning = "a tuple passes unless one of the same key passed less than the horizon before it"
    state = "the last tuple that passed of each key, for the horizon"
    class_ = "deterministic"

    def lines(self, box: Dedup) -> Iterator[str]:
        yield f"by {', '.join(box.by)}"
        yield f"horizon {format_duration(box.horizon_us)}"

    def check(self, box: Dedup, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        if not box.by:
            remedy = candidates("", (column.name for column in inputs[0] or ()))
            report.add("missing-key", box.name, "by", "by: no columns given that identify duplicates.", remedy)
        check_window(box.name, "horizon", box.horizon_us, report)

    def schema(self, box: Dedup, inputs: Sequence[Schema]) -> Schema | None:
        return inputs[0]

    def judge(self, box: Dedup, order: Order) -> Judgement:
        reason = "a restart lets another tuple pass first, and the horizons of the next begin with it"
        return Judgement(OperatorClass.DETERMINISTIC, reason)

    def flow(self, box: Dedup, flow: Flow) -> Columns:
        flow.grouped(box.by)
        return flow.first

    def waits_us(self, box: Dedup) -> int | None:
        """All before the watermark have passed or not, so the next one that passes is at or after it."""
        return 0


class WSortKind(Kind[WSort]):
    makes = WSort
    keys = (
        Key(name="input", form=ARROW),
        Key(name="by", form=NAMES),
        Key(name="timeout", attribute="timeout_us", form=DURATION),
    )
    shape = (">", "]")
    meaning = (
        "tuples in the order of some columns, as far as a timeout lets them wait; what comes too late goes elsewhere"
    )
    state = "the tuples of the last timeout, and the last that has left"
    class_ = "deterministic"

    def lines(self, box: WSort) -> Iterator[str]:
        yield f"by {', '.join(box.by)}"
        yield f"timeout {format_duration(box.timeout_us)}"

    def check(self, box: WSort, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        if not box.by:
            remedy = candidates("", (column.name for column in inputs[0] or ()))
            report.add("missing-key", box.name, "by", "by: no columns given to sort by.", remedy)
        check_window(box.name, "timeout", box.timeout_us, report)

    def schema(self, box: WSort, inputs: Sequence[Schema]) -> Schema | None:
        return inputs[0]

    def judge(self, box: WSort, order: Order) -> Judgement:
        reason = "a restart does not know what has left, by which others were late and times were given"
        return Judgement(OperatorClass.DETERMINISTIC, reason)

    def flow(self, box: WSort, flow: Flow) -> Columns:
        flow.grouped(box.by)
        return flow.first

    def waits_us(self, box: WSort) -> int | None:
        """What leaves later leaves after the watermark, and what is late later is at or after it."""
        return 0


DEDUP: Final = DedupKind()
WSORT: Final = WSortKind()

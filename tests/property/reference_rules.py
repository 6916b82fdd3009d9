"""The rules of the reference that a run of Spark shows, each with a mutation that breaks it.

``WINDOWS``, ``JOINS``, ``COUNTING``, ``ORDERED``, ``SLIDING`` and ``LOOKUPS`` are named after the diagrams that show
them.
"""

from __future__ import annotations

from anabranch.model import identity
from anabranch.query import graph
from anabranch.reference import aggregates, box, lookups, network
from anabranch.reference.box import Groups, ReferenceBox
from anabranch.reference.joins import JoinBox, LatestBox, ResampleBox, _between
from anabranch.reference.lookups import LookupBox
from anabranch.reference.ordered import DedupBox, OrderedBox, WSortBox, _canonical
from anabranch.reference.stage import StageReference
from anabranch.reference.steps import DropBox, FilterBox, MapBox, PythonBox, UnionBox, _plain
from anabranch.reference.tuples import Tuple
from anabranch.reference.windows import (
    AggregateBox,
    CountAggregateBox,
    EarlyAggregateBox,
    SessionBox,
    SlideBox,
    Summaries,
    TumbleBox,
    XSectionBox,
    shows_early,
)
from tests.property.mutations import Mutation

WINDOWS = [
    # Python
    Mutation(
        "a Python box keeps the columns", PythonBox._extended, "{**each.values,", "{**dict.fromkeys(each.values),"
    ),
    Mutation("columns have what the function makes", _plain, "pa.int64())[0].as_py()", "pa.int64())[0].as_py() + 1"),
    Mutation("a Python box keeps the identity", PythonBox._extended, "tid=each.tid", "tid=0"),
    Mutation("a Python box keeps the time", PythonBox._extended, "stime=each.stime", "stime=each.stime + 1"),
    Mutation("a Python box passes promises on", PythonBox.promises, "dict(self._promised[0])", "{}"),
    # Filter
    Mutation(
        "a tuple goes to the first predicate that holds",
        FilterBox.process,
        "next((n for n, holds in enumerate(self._predicates)",
        "next((n for n, holds in reversed([*enumerate(self._predicates)])",
    ),
    Mutation(
        "otherwise takes only the rest",
        FilterBox.process,
        "elif self._otherwise:",
        "if self._otherwise:",
    ),
    Mutation("a predicate that is NULL does not hold", FilterBox.process, "is True", "is not False"),
    Mutation(
        "otherwise takes NULL too",
        FilterBox.process,
        "elif self._otherwise:",
        "elif self._otherwise and all(holds.of(row) is False for holds in self._predicates):",
    ),
    Mutation("a Filter passes promises on", FilterBox.promises, "dict(self._promised[0])", "{}"),
    # Map
    Mutation("a Map keeps the number", MapBox._map, "tid=each.tid", "tid=each.tid + 1"),
    Mutation("a Map keeps the time", MapBox._map, "stime=each.stime", "stime=each.stime + 1"),
    Mutation("a Map keeps the origin", MapBox._map, "origin=each.origin", 'origin="shouted"'),
    Mutation(
        "equal rows stay two tuples",
        MapBox.process,
        "[self._map(each) for each in tuples]",
        "[*{str(made.values): made for made in map(self._map, tuples)}.values()]",
    ),
    Mutation("a Map passes promises on", MapBox.promises, "dict(self._promised[0])", "{}"),
    # Union
    Mutation("without a common source a Union keeps identities", UnionBox._pass, "if self._hashes:", "if True:"),
    Mutation("with a common source a Union hashes identities", UnionBox._pass, "if self._hashes:", "if False:"),
    Mutation(
        "a Union that hashes does so for its first input",
        UnionBox._pass,
        "if self._hashes:",
        "if self._hashes and port > 0:",
    ),
    Mutation(
        "a Union that hashes does so for inputs that share nothing",
        UnionBox._pass,
        "if self._hashes:",
        'if self._hashes and not each.origin.startswith("b/"):',
    ),
    Mutation("a Union hashes the number of the input", UnionBox._pass, '("int", port), ', ""),
    Mutation("a Union hashes its name", UnionBox._pass, '"union", self._name', '"union", ""'),
    Mutation("a Union keeps the time", UnionBox._pass, "stime=each.stime", "stime=each.stime + 1"),
    Mutation("a Union keeps the origin", UnionBox._pass, "origin=each.origin", "origin=self._name"),
    Mutation(
        "a Union promises for the origins of all inputs",
        UnionBox.promises,
        "origins = {origin for promised in self._promised for",
        "origins = {origin for promised in self._promised[:1] for",
    ),
    Mutation(
        "a Union has the origins of all inputs",
        graph._origins,
        "frozenset().union(*(found[arrow.box] for arrow in box.inputs))",
        "found[box.inputs[0].box]",
    ),
    Mutation(
        "a box that reads an arrow twice gets it twice",
        network.readers,
        "found.setdefault(arrow, []).append((box.name, port))",
        "found.setdefault(arrow, []).extend([(box.name, port)] if box.inputs.index(arrow) == port else [])",
    ),
    Mutation("a hashed identity has its origin", Tuple.identity_parts, '("string", self.origin)', '("string", "")'),
    Mutation("a hashed identity has its time", Tuple.identity_parts, '("bigint", self.stime)', '("bigint", 0)'),
    Mutation("a hashed identity has its number", Tuple.identity_parts, '("bigint", self.tid)', '("bigint", 0)'),
    # Aggregate: windows
    Mutation(
        "windows are aligned to 1970",
        AggregateBox._windows_of,
        "return [(k * every, k * every + size) for k",
        "return [(k * every + 1_000_000, k * every + size + 1_000_000) for k",
    ),
    Mutation(
        "windows advance by their own step",
        AggregateBox._windows_of,
        "self._box.time_window",
        "self._box.time_window[:1] * 2",
    ),
    Mutation("a window holds its first moment", AggregateBox._windows_of, "time // every\n", "(time - 1) // every\n"),
    Mutation(
        "a window does not hold its last moment",
        AggregateBox._windows_of,
        "(time - size) // every + 1",
        "-((size - time) // every)",
    ),
    Mutation("the end of a window is its stream time", AggregateBox.close, "], end, tuples)", "], start, tuples)"),
    Mutation("an Aggregate is the origin", Summaries.named, "origin=self._name", "origin=tuples[0].origin"),
    # Aggregate: identity
    Mutation("an Aggregate hashes the group", Summaries.summary, "[*self.groups.parts(group), ", "["),
    Mutation("an Aggregate hashes the window's start", AggregateBox.close, '("bigint", start), ', ""),
    Mutation("an Aggregate hashes the window's end", AggregateBox.close, ', ("bigint", end)]', "]"),
    Mutation("an Aggregate hashes its name", Summaries.named, "kind, self._name", 'kind, ""'),
    Mutation("a hash tells the types of its parts", identity.label, "','.join(types)", "len(types)"),
    Mutation(
        "a hash tells that NULL was there", identity.identity_hash, "_hash(_IS_NULL, value)", "_hash(_IS_THERE, value)"
    ),
    # Aggregate: groups
    Mutation(
        "NULL is a group",
        AggregateBox.process,
        "in self._windows_of(each.stime):",
        "in self._windows_of(each.stime) if None not in group else []:",
    ),
    Mutation(
        "NULL is a group of its own",
        Groups.of,
        "normal(each.values[name])",
        'normal({"string": "a", "double": 0.0}[self.types[name]] if each.values[name] is None else each.values[name])',
    ),
    Mutation(
        "minus zero and zero are one group",
        box.normal,
        "value + 0.0",
        "(value if str(value) != '-0.0' else -5e-324)",
    ),
    Mutation("all NaNs are one group", box.normal, "math.nan if", "value if"),
    Mutation("keys keep their case", box.normal, "return value\n", "return value and str.lower(value)\n"),
    # Aggregate: columns
    Mutation("count(x) leaves NULL out", aggregates._count, "if compiled else", "if False else"),
    Mutation("a sum of nothing is NULL", aggregates._or_null, "if values else None", "if values else 0"),
    # Aggregate: when windows close, and what is promised then
    Mutation("a window closes at its end", AggregateBox.close, "window[1] <= self", "window[1] < self"),
    Mutation("windows stay open before their end", AggregateBox.close, "window[1] <= self", "window[0] <= self"),
    Mutation("after W an Aggregate promises W + 1 us", AggregateBox.promises, "watermark_us + 1 if", "watermark_us if"),
    Mutation("an Aggregate promises nothing at W = 0", AggregateBox.promises, " if self.watermark_us else 0", ""),
    Mutation("windows close in whole milliseconds", AggregateBox.punctuate, " // 1_000 * 1_000", ""),
    Mutation("the slowest origin of an input holds it", ReferenceBox._smallest, "min(", "max("),
    Mutation(
        "an origin that promised nothing holds an input",
        ReferenceBox._smallest,
        "min(self._promised[port].values(), default=0)",
        "min(filter(None, self._promised[port].values()), default=0)",
    ),
    # The watermark
    Mutation(
        "windows hear of a punctuation one batch late",
        StageReference._work,
        "promises if catalog.waits_us(box) is None else self._late_promises",
        "promises",
    ),
    Mutation(
        "the watermark comes one batch late",
        StageReference.run,
        "watermark_us=self._watermark_us",
        "watermark_us=min(time for arrow in self._read for time in promises[arrow].values()) // 1_000 * 1_000",
    ),
    Mutation("the watermark has whole milliseconds", StageReference.watermark_after, " // 1_000 * 1_000", ""),
    Mutation("the slowest origin holds the watermark", StageReference.watermark_after, "min(time for", "max(time for"),
    Mutation(
        "the watermark is the smallest over all inputs",
        StageReference.watermark_after,
        "min(time for promised in read for time in promised.values())",
        "max(min(promised.values()) for promised in read)",
    ),
    Mutation(
        "an origin that promised nothing holds the watermark",
        StageReference.watermark_after,
        "min(time for promised in read for time in promised.values())",
        "min((time for promised in read for time in promised.values() if time), default=0)",
    ),
    Mutation(
        "an origin that promised nothing is left out",
        StageReference.run,
        "for origin, time in promises[self._root].items() if time}",
        "for origin, time in promises[self._root].items()}",
    ),
    Mutation(
        "what never waits promises at once",
        StageReference._work,
        "promises if catalog.waits_us(box) is None else self._late_promises",
        "self._late_promises",
    ),
]

JOINS = [
    Mutation("a pair lies less than the window apart", JoinBox.process, "< self._within_us", "<= self._within_us"),
    Mutation(
        "either of a pair may be the later",
        JoinBox.process,
        "abs(left.stime - right.stime)",
        "(left.stime - right.stime)",
    ),
    Mutation("a pair fulfils the predicate", JoinBox.process, "is True", "is not None"),
    Mutation("NULL joins nothing", JoinBox.process, "is True", "is not False"),
    Mutation(
        "a tuple meets what came before it",
        JoinBox.process,
        "self._buffers[port].append(each)",
        "self._buffers[port][:] = [each]",
    ),
    Mutation("a pair has the later time", JoinBox._concatenate, "max(left", "min(left"),
    Mutation("a Join is the origin", JoinBox._concatenate, "origin=self._name", "origin=left.origin"),
    Mutation("a Join hashes its name", JoinBox._concatenate, '"join", self._name', '"join", ""'),
    Mutation("a Join hashes the left identity", JoinBox._concatenate, "*left.identity_parts, ", ""),
    Mutation("a Join hashes the right identity", JoinBox._concatenate, ", *right.identity_parts", ""),
    Mutation(
        "left and right are not interchangeable",
        JoinBox._concatenate,
        "[*left.identity_parts, *right.identity_parts]",
        "[part for parts in sorted((left.identity_parts, right.identity_parts)) for part in parts]",
    ),
    Mutation(
        "a Join remembers what may still match",
        JoinBox.punctuate,
        "self._smallest(port) - self._within_us",
        "self._smallest(port)",
    ),
    Mutation(
        "a Join forgets by what the other input promised",
        JoinBox.punctuate,
        "self._smallest(port) - self._within_us",
        "self._smallest(1 - port) - self._within_us",
    ),
    Mutation("the slower input holds a Join", JoinBox.promises, "min(", "max("),
    Mutation(
        "both inputs hold a Join", JoinBox.promises, "min(self._smallest(0), self._smallest(1))", "self._smallest(0)"
    ),
    Mutation("all origins of an input hold a Join", ReferenceBox._smallest, "min(", "max("),
    Mutation(
        "an origin that promised nothing holds a Join",
        ReferenceBox._smallest,
        "min(self._promised[port].values(), default=0)",
        "min(filter(None, self._promised[port].values()), default=0)",
    ),
    Mutation(
        "a Join promises at once",
        StageReference._work,
        "promises if catalog.waits_us(box) is None else self._late_promises",
        "self._late_promises",
    ),
    Mutation(
        "a batch's tuples come before its punctuations",
        StageReference._work,
        """\
        _add(made, worker.process(port, emitted[arrow.box].get(arrow.port, [])))
    for port, arrow in enumerate(box.inputs):
        _add(made, worker.punctuate(port, heard.get(arrow, {})))
""",
        """\
        _add(made, worker.punctuate(port, heard.get(arrow, {})))
        _add(made, worker.process(port, emitted[arrow.box].get(arrow.port, [])))
""",
    ),
    Mutation(
        "the watermark of a Join is the smallest over both inputs",
        StageReference.watermark_after,
        "min(time for promised in read for time in promised.values())",
        "max(min(promised.values()) for promised in read)",
    ),
    Mutation(
        "sources meet in a Union though origins do not",
        graph.union_hashes,
        "sources_of(diagram, arrow.box)",
        "origins(diagram, arrow)",
    ),
    Mutation(
        "a Join is an origin of its own",
        graph._origins,
        "found[box.name] = frozenset({box.name})",
        "found[box.name] = frozenset().union(*(found[arrow.box] for arrow in box.inputs))",
    ),
]

COUNTING = [
    Mutation("a window lasts for its timeout", CountAggregateBox._reach, "if end <= time_us", "if end < time_us"),
    Mutation("a timeout counts from the first", CountAggregateBox._reach, "tuples[0].stime", "tuples[-1].stime"),
    Mutation("after a timeout the next begins", CountAggregateBox._reach, "self._counts[group] = 0", "pass"),
    Mutation("a window has its own size", CountAggregateBox._take, "== size:", "== size - 1:"),
    Mutation(
        "windows of tuples advance by their own step",
        CountAggregateBox._take,
        "self._box.count_window",
        "self._box.count_window[:1] * 2",
    ),
    Mutation(
        "a window begins with the first tuple",
        CountAggregateBox._take,
        "self._counts[group]\n",
        "self._counts[group] + 1\n",
    ),
    Mutation(
        "a group counts for itself",
        CountAggregateBox._take,
        "group = self._summaries.groups.of(each)",
        "group = tuple(None for _ in self._summaries.groups.types)",
    ),
    Mutation("tuples count in the order of time", _canonical, "each.stime, -port", "-port"),
    Mutation("then in the order of origins", _canonical, "each.origin, each.tid", "each.tid"),
    Mutation("then in the order of their numbers", _canonical, "each.origin, each.tid", "each.origin, -each.tid"),
    Mutation(
        "only tuples below the watermark count",
        OrderedBox.close,
        "if each[1].stime < self",
        "if each[1].stime <= self",
    ),
    Mutation("a window's time is that of its last tuple", Summaries.early, "tuples[-1].stime", "tuples[0].stime"),
    Mutation("a window hashes its first tuple", Summaries.early, "[*tuples[0].identity_parts, *", "[*"),
    Mutation("a window hashes its last tuple", Summaries.early, ", *tuples[-1].identity_parts]", "]"),
    Mutation("counting is a kind of its own", Summaries.early, '"count"', '"window"'),
    Mutation("a timeout's time is the end", CountAggregateBox._reach, ", stime=end)", ")"),
    Mutation("a result comes after so many tuples", shows_early, "% box.emit_rows == 0", "% box.emit_rows == 1"),
    Mutation("early windows of time end", EarlyAggregateBox._reach, "start + size <= time", "start + size < time"),
    Mutation("early windows lie on a grid", EarlyAggregateBox._reach, "// size * size", ""),
    Mutation(
        "an early window is one of a group",
        EarlyAggregateBox._take,
        "self._summaries.groups.of(each)",
        "tuple(None for _ in self._summaries.groups.types)",
    ),
    Mutation("with early results W is promised", EarlyAggregateBox.promises, "watermark_us}", "watermark_us + 1}"),
    Mutation(
        "an Aggregate that counts promises the watermark",
        CountAggregateBox.promises,
        "self.watermark_us}",
        "self.watermark_us and self.watermark_us + 1}",
    ),
    Mutation("a Drop hashes its seed", DropBox._drops, '[("bigint", self._box.seed), *', "[*"),
    Mutation("a Drop hashes the identity", DropBox._drops, ", *each.identity_parts]", "]"),
    Mutation("a Drop drops the lowest hashes", DropBox._drops, "1 << 64) <", "1 << 64) >="),
    Mutation("a predicate that is NULL drops nothing", DropBox._drops, "is True", "is not False"),
    Mutation("a Drop passes promises on", DropBox.promises, "dict(self._promised[0])", "{}"),
]

ORDERED = [
    Mutation("a run ends when the value changes", TumbleBox._take, "!= value(each)", "== value(each)"),
    Mutation("a run's time is that of what ends it", TumbleBox._take, "each.stime", "self._run[-1].stime"),
    Mutation("a run hashes its first tuple", TumbleBox._close, "run[0].identity_parts", "run[-1].identity_parts"),
    Mutation("a Tumble is a kind of its own", TumbleBox._close, '"tumble"', '"count"'),
    Mutation("a timeout counts from the first", TumbleBox._reach, "self._run[0].stime", "self._run[-1].stime"),
    Mutation("a timeout is over at its end", TumbleBox._reach, "if end <= time_us", "if end < time_us"),
    Mutation("a timeout's time is its end", TumbleBox._reach, "self._close(end)", "self._close(time_us)"),
    Mutation("a Tumble promises the watermark", TumbleBox.promises, "self.watermark_us}", "self.watermark_us + 1}"),
    Mutation("timeouts are over at the watermark", OrderedBox.close, ", *self._reach(self.watermark_us)]", "]"),
    Mutation("a partner is not later", _canonical, "each.stime, -port,", "-port, each.stime,"),
    Mutation("a partner may be as late as itself", _canonical, "-port,", "port,"),
    Mutation(
        "the newest partner counts", LatestBox._take, "self._newest[key] = each", "self._newest.setdefault(key, each)"
    ),
    Mutation("a partner has the same key", LatestBox._take, "key = self._keys[port].of(each)", "key = (1,)"),
    Mutation("NULL finds nothing", LatestBox._take, " if None not in key else None", ""),
    Mutation("a partner is too old at once", LatestBox._take, "< self._box.within_us", "<= self._box.within_us"),
    Mutation("a partner is too old at some time", LatestBox._take, "self._box.within_us is not None", "False"),
    Mutation("without a partner there is no tuple", LatestBox._take, " or self._box.outer", " or True"),
    Mutation("with outer there is one", LatestBox._take, " or self._box.outer", ""),
    Mutation("it has the time of the first", LatestBox._take, "stime=each.stime", "stime=(partner or each).stime"),
    Mutation("it hashes the first", LatestBox._take, "each.identity_parts", "(partner or each).identity_parts"),
    Mutation("a Latest is a kind of its own", LatestBox._take, '"latest", self', '"join", self'),
    Mutation("a Latest is the origin", LatestBox._take, "origin=self._box.name", "origin=each.origin"),
    Mutation("a Latest promises the watermark", LatestBox.promises, "self.watermark_us}", "self.watermark_us + 1}"),
    Mutation(
        "the slower input holds a Latest",
        OrderedBox.punctuate,
        "min(self._smallest(each) for each in range(len(self._promised)))",
        "self._smallest(port)",
    ),
    Mutation("a session ends with its gap", SessionBox._reach, "if end <= time_us", "if end < time_us"),
    Mutation("a session's time is the end of its gap", SessionBox._reach, "end, tuples)", "tuples[-1].stime, tuples)"),
    Mutation(
        "a session hashes its first tuple",
        SessionBox._reach,
        "tuples[0].identity_parts",
        "tuples[-1].identity_parts",
    ),
    Mutation(
        "a gap is one of a group",
        SessionBox._take,
        "self._summaries.groups.of(each)",
        "tuple(None for _ in self._summaries.groups.types)",
    ),
    Mutation("after W a Session promises W + 1 us", SessionBox.promises, "after = 1 if", "after = 0 if"),
    Mutation("with early results a Session promises W", SessionBox.promises, "self._box.emit_rows is None and", ""),
    Mutation("a run has early results", TumbleBox._take, "if shows_early(self._box, self._run)", "if False"),
    Mutation(
        "an early result is of a run's own value",
        TumbleBox._take,
        "self._summaries.early(value(each), self._run)",
        "self._summaries.early(value(each), self._run[:1])",
    ),
    Mutation("a horizon ends", DedupBox._take, ">= self._horizon_us", "> self._horizon_us"),
    Mutation(
        "a tuple that was dropped keeps out nobody",
        DedupBox._take,
        "passed = self._passed.get(key)",
        "passed, self._passed[key] = self._passed.get(key), each.stime",
    ),
    Mutation("a key keeps out its own", DedupBox._take, "key = self._groups.of(each)", "key = ()"),
    Mutation("a Dedup promises the watermark", DedupBox.promises, "self.watermark_us)", "self.watermark_us + 1)"),
    Mutation("a Dedup keeps origins", DedupBox.promises, "dict.fromkeys(self._promised[0],", "dict.fromkeys(['once'],"),
    Mutation("a Union waits for the input that waits", UnionBox.promises, "min(promised", "max(promised"),
]

SLIDING = [
    Mutation(
        "a section's window begins",
        XSectionBox._reach,
        "each.stime >= moment - self._box.window_us",
        "each.stime > moment - self._box.window_us",
    ),
    Mutation("a section hashes its moment", XSectionBox._reach, '[("bigint", moment)]', "[]"),
    Mutation("a section's time is its moment", XSectionBox._reach, "moment, window)", "tuples[-1].stime, window)"),
    Mutation("a section is a kind of its own", XSectionBox._reach, '"xsection"', '"slide"'),
    Mutation(
        "a group lives for a while",
        XSectionBox._moments,
        "tuples[-1].stime + self._box.expire_us",
        "tuples[-1].stime + self._box.window_us",
    ),
    Mutation("a group lives to the end", XSectionBox._moments, "until // every + 1", "(until - 1) // every + 1"),
    Mutation("a group lives after its first tuple", XSectionBox._moments, "after // every + 1", "-(-after // every)"),
    Mutation("after W sections promise W + 1 us", XSectionBox.promises, "watermark_us + 1 if", "watermark_us if"),
    Mutation(
        "a result is over the last tuples", SlideBox._summary, "tuples[-self._box.rows :]", "tuples[: self._box.rows]"
    ),
    Mutation(
        "a result has its own tuple",
        SlideBox._summary,
        "tuples = self._tuples[group]",
        "tuples = self._tuples[group][:-1]",
    ),
    Mutation("a while ends", SlideBox._summary, " + (self._box.every_us is None)", ""),
    Mutation("a while before a moment begins", SlideBox._summary, "(self._box.every_us is None)", "1"),
    Mutation("every so many tuples of a group", SlideBox._take, "% self._box.step == 0", "% self._box.step == 1"),
    Mutation("a result hashes its tuple", SlideBox._take, "each.identity_parts", "tuples[0].identity_parts"),
    Mutation("a result has the time of its tuple", SlideBox._take, "each.stime)", "tuples[0].stime)"),
    Mutation("a moment is after its tuples", SlideBox._take, "self._box.every_us + 1)", "self._box.every_us)"),
    Mutation("a moment's result has its time", SlideBox._reach, "parts, moment)", "parts, time_us)"),
    Mutation("a moment hashes the group", SlideBox._reach, "*self._summaries.groups.parts(group), ", ""),
    Mutation("a moment hashes itself", SlideBox._reach, ', ("bigint", moment)]', "]"),
    Mutation("without a new tuple no moment has a result", SlideBox._reach, "del self._moments[group]", "pass"),
    Mutation("a Slide is a kind of its own", SlideBox._summary, '"slide"', '"count"'),
    Mutation("after W moments promise W + 1 us", SlideBox.promises, "after = 1 if", "after = 0 if"),
    Mutation(
        "a Slide promises the watermark", SlideBox.promises, "self.watermark_us else 0", "self.watermark_us else 1"
    ),
    Mutation("what counts is near", ResampleBox._resampled, "< self._box.within_us", "<= self._box.within_us"),
    Mutation(
        "what counts has the same key",
        ResampleBox._resampled,
        "self._seconds.get(key, [])",
        "[*self._seconds.values()][0]",
    ),
    Mutation("a Resample hashes the first", ResampleBox._resampled, "each.identity_parts", "[]"),
    Mutation("a Resample is a kind of its own", ResampleBox._resampled, '"resample"', '"latest"'),
    Mutation(
        "NULL has no value",
        ResampleBox._value,
        "if other.values[name] is not None",
        "if other.values[name] is not None or self._box.how == 'previous'",
    ),
    Mutation("what is there at the time is not between", _between, "before[0][0] == time", "False"),
    Mutation("a line is straight", _between, "(time - first) / (last - first)", "0.5"),
    Mutation(
        "a mean is of all",
        ResampleBox._value,
        "for _, value in values], SUM_SCALE",
        "for _, value in before], SUM_SCALE",
    ),
    Mutation(
        "of two that are as near, the earlier counts",
        ResampleBox._value,
        "<= after[0][0] - time",
        "< after[0][0] - time",
    ),
    Mutation(
        "the last before counts",
        ResampleBox._value,
        'case "previous":\n            return before[-1]',
        'case "previous":\n            return before[0]',
    ),
    Mutation("a Resample holds back its distance", ResampleBox.promises, "+ 1 - waits_us", "+ 1"),
    Mutation("a Resample waits for its distance", ResampleBox._reach, "<= time_us", "<= time_us + 1_000_000"),
    Mutation(
        "what sorts before leaves along",
        WSortBox._reach,
        "if self._place(each) <= self._left",
        "if each is self._buffer[0]",
    ),
    Mutation("a timeout lets leave at its end", WSortBox._reach, "<= time_us", "< time_us"),
    Mutation("what leaves has the time of the release", WSortBox._reach, "stime=release", "stime=each.stime"),
    Mutation("what sorts before the last that left is late", WSortBox._take, "self._left is not None and", "False and"),
    Mutation("NULL sorts first", WSortBox._place, "value is not None,", "value is None,"),
    Mutation(
        "equal ones are in canonical order", WSortBox._place, "each.stime, each.origin", "-each.stime, each.origin"
    ),
    Mutation(
        "columns sort in their order", WSortBox._place, "for name in self._by]", "for name in reversed(self._by)]"
    ),
    Mutation("a WSort promises the watermark", WSortBox.promises, "self.watermark_us)", "self.watermark_us + 1)"),
]

LOOKUPS = [
    Mutation("a tuple finds every row that matches", LookupBox._found, "for row in rows]", "for row in rows[:1]]"),
    Mutation("all equalities must hold", LookupBox._found, "if all(", "if any("),
    Mutation("an inner lookup loses what finds nothing", LookupBox._found, "and self._box.outer", ""),
    Mutation("an outer lookup keeps what finds nothing", LookupBox._found, "if not rows and", "if False and"),
    Mutation("NULL equals nothing", lookups._equal, "one is None or other is None", "False"),
    Mutation("NaN equals itself", lookups._equal, "one is other or one == other", "one == other"),
    Mutation("the key of the row is hashed", LookupBox._made, ", *key]", "]"),
    Mutation("all columns of the key are hashed", LookupBox._made, ", *key]", ", *key[:1]]"),
    Mutation("the identity of the tuple is hashed", LookupBox._made, "*each.identity_parts, ", ""),
    Mutation("a Lookup hashes its name", LookupBox._made, '"lookup", self._box.name', '"lookup", ""'),
    Mutation("a Lookup is a kind of its own", LookupBox._made, '"lookup"', '"join"'),
    Mutation("a Lookup keeps the origin", LookupBox._made, "origin=each.origin", "origin=self._box.name"),
    Mutation("a Lookup keeps the time", LookupBox._made, "stime=each.stime", "stime=each.stime + 1"),
    Mutation("a Lookup passes promises on", LookupBox.promises, "dict(self._promised[0])", "{}"),
]

"""Building a query in Python: ``Query`` and ``Stream``.

    q = Query("slow_paths")
    ping = q.source("ping", "source string, target string, rtt_ms double")
    q.output("slow", ping.filter("rtt_ms > 1000"))

A builder never stops at a mistake in the query: ``validate`` tells all of them together. A box without a given name
gets one from its contents, so it is the same in every process, and two equal boxes are one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, overload

from anabranch.errors import ConfigError, Problem, QueryError
from anabranch.query import arguments, yaml_form
from anabranch.query.arguments import SQL_REMEDY, Duration, Durations, WriterLike
from anabranch.query.boxes import (
    Aggregate,
    Arrow,
    Box,
    Dedup,
    Diagram,
    Drop,
    Filter,
    Join,
    Latest,
    Lookup,
    Map,
    Output,
    Python,
    Resample,
    Session,
    Slide,
    Source,
    Table,
    TableValue,
    Tumble,
    Union,
    WSort,
    XSection,
    kind_name,
)
from anabranch.query.connectors import Feed
from anabranch.query.graph import ports
from anabranch.query.problems import candidates
from anabranch.query.schema import parse_schema
from anabranch.query.text import Draft, Mistakes, diagram_from_dict, diagram_to_dict, parameters
from anabranch.query.validate import validate


class Query:
    """A diagram under construction."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._boxes: list[Box] = []
        self._outputs: list[Output] = []
        self._mistakes: Mistakes = {}
        self._places: dict[str, str] = {}
        self._untranslated: tuple[Problem, ...] = ()
        self.directory: Path | None = None
        """From where relative paths of tables lead: where its file is, if it came from one."""

    def source(
        self,
        name: str,
        schema: str,
        *,
        time: str | None = None,
        disorder: Duration | None = None,
        idle: Duration | None = None,
        silence: Duration | None = None,
        horizon: Duration | None = None,
        producers: Sequence[str] = (),
        feed: Feed | str | None = None,
    ) -> Stream:
        """Where tuples enter. Without ``time`` they are stamped on arrival; with it, that column is their time.

        Rows that are more than ``horizon`` ahead of the slowest lane that they meet wait for it. ``feed`` brings the
        rows (see ``ab.feeds``); without one, clients push them.
        """
        durations = Durations()
        source = Source(
            name=name,
            schema=parse_schema(arguments.text("schema", schema)),
            time=arguments.maybe_text("time", time),
            disorder_us=durations.read("disorder", disorder) if disorder is not None else 0,
            idle_us=durations.maybe("idle", idle),
            silence_us=durations.maybe("silence", silence),
            horizon_us=durations.maybe("horizon", horizon),
            producers=arguments.names("producers", producers),
            feed=arguments.feed("feed", feed),
        )
        return self._add(source, name, durations)[0]

    def table(
        self,
        name: str,
        schema: str,
        *,
        key: str | Sequence[str],
        file: str | None = None,
        database: str | None = None,
        sql: str | None = None,
        rows: Sequence[Sequence[TableValue]] | None = None,
    ) -> Table:
        """A table that does not change while the query runs, for ``lookup``. No two rows have equal values in ``key``.

        Its rows are those of a file (CSV with a header, or Parquet), what a database answers to ``sql``, or ``rows``.
        """
        return Table(
            name=arguments.text("name", name),
            schema=parse_schema(arguments.text("schema", schema)),
            key=arguments.names("key", key),
            file=arguments.maybe_text("file", file),
            database=arguments.maybe_text("database", database),
            sql=arguments.maybe_text("sql", sql),
            rows=arguments.rows("rows", rows),
        )

    def union(self, *streams: Stream, name: str | None = None) -> Stream:
        """All tuples of all these streams; they must have the same columns."""
        return self._add(Union(name="", inputs=tuple(self._arrow(stream) for stream in streams)), name)[0]

    def output(self, name: str, stream: Stream, *, to: WriterLike | Sequence[WriterLike] = ()) -> None:
        """Let readers subscribe to a stream under this name; ``to`` carries it elsewhere, too (see ``ab.writers``)."""
        self._outputs.append(
            Output(name=arguments.text("name", name), input=self._arrow(stream), to=arguments.writers("to", to))
        )

    def feed(self, source: str, feed: Feed | str | None) -> None:
        """Let this feed bring the rows of a source, instead of the one that it has; None leaves it to clients."""
        found = arguments.feed("feed", feed)
        if not any(isinstance(box, Source) and box.name == source for box in self._boxes):
            names = [box.name for box in self._boxes if isinstance(box, Source)]
            raise ConfigError(f"There is no source {source!r}.", remedy=candidates(source, names))
        self._boxes = [
            dataclasses.replace(box, feed=found) if isinstance(box, Source) and box.name == source else box
            for box in self._boxes
        ]
        self._mistakes.pop((source, "feed"), None)

    def write(self, output: str, to: WriterLike | Sequence[WriterLike]) -> None:
        """Carry an output to these places, instead of those that it has."""
        if not any(each.name == output for each in self._outputs):
            names = [each.name for each in self._outputs]
            raise ConfigError(f"There is no output {output!r}.", remedy=candidates(output, names))
        found = arguments.writers("to", to)
        self._outputs = [dataclasses.replace(each, to=found) if each.name == output else each for each in self._outputs]
        self._mistakes.pop((output, "to"), None)

    def diagram(self) -> Diagram:
        """The diagram as built so far, valid or not. Who wants to run it asks for ``checked``."""
        return Diagram(name=self.name, boxes=tuple(self._boxes), outputs=tuple(self._outputs))

    def validate(self) -> list[Problem]:
        """Every problem of the query, also those that a diagram cannot express."""
        if self._untranslated:  # what else seems wrong may only be missing
            return list(self._untranslated)
        problems = [*self._mistakes.values(), *validate(self.diagram(), told=self._mistakes)]
        return [dataclasses.replace(each, place=self._places.get(each.box, "")) for each in problems]

    def checked(self) -> Diagram:
        """The diagram, or QueryError with everything that is wrong with it."""
        problems = self.validate()
        if problems:
            raise QueryError(self.name, problems)
        return self.diagram()

    def to_dict(self) -> dict[str, Any]:
        return diagram_to_dict(self.diagram())

    def to_yaml(self) -> str:
        return yaml_form.dump(self.to_dict())

    @classmethod
    def from_dict(cls, data: object) -> Query:
        """A query from plain data. What cannot be read is told by ``validate``."""
        return cls._from_draft(diagram_from_dict(data))

    @classmethod
    def from_yaml(cls, text: str, *, place: str = "The YAML text") -> Query:
        """A query from YAML; ConfigError if it is not even that."""
        return cls.from_dict(yaml_form.parse(text, place=place))

    @classmethod
    def _from_draft(cls, draft: Draft) -> Query:
        query = cls(draft.diagram.name)
        query._boxes = list(draft.diagram.boxes)
        query._outputs = list(draft.diagram.outputs)
        query._mistakes = dict(draft.mistakes)
        return query

    def _add(self, box: Box, name: str | None, durations: Durations | None = None) -> tuple[Stream, ...]:
        """Put a box into the diagram, unless this very box is there already, and return its outputs."""
        named = dataclasses.replace(box, name=derived_name(box) if name is None else arguments.text("name", name))
        if named not in self._boxes:
            self._boxes.append(named)
        for field, problem in durations.mistakes if durations is not None else ():
            told = Problem(
                code="bad-duration", box=named.name, message=f"{field}: {problem.message}", remedy=problem.remedy
            )
            self._mistakes[(named.name, field)] = told
        return tuple(Stream(self, Arrow(named.name, port)) for port in range(max(1, ports(named))))

    def _rename(self, stream: Stream, name: str) -> Stream:
        """Give the box of a stream another name, if nothing reads it yet."""
        old = stream.arrow.box
        if any(arrow.box == old for box in self._boxes for arrow in box.inputs):
            return stream
        self._boxes = [dataclasses.replace(box, name=name) if box.name == old else box for box in self._boxes]
        self._places[name] = self._places.pop(old, "")
        return Stream(self, dataclasses.replace(stream.arrow, box=name))

    def _arrow(self, stream: Stream) -> Arrow:
        if not isinstance(stream, Stream):
            raise arguments.misuse(
                f"{stream!r} is not a stream.", "Pass what a builder method returned.", query=self.name
            )
        if stream.query is not self:
            message = f"{stream!r} belongs to the query {stream.query.name!r}."
            raise arguments.misuse(message, "Build all boxes from one Query.", query=self.name)
        return stream.arrow

    def __repr__(self) -> str:
        return f"Query({self.name!r}, {len(self._boxes)} boxes, {len(self._outputs)} outputs)"


class Stream:
    """One output of a box, from which further boxes can be built."""

    __slots__ = ("arrow", "query")

    def __init__(self, query: Query, arrow: Arrow) -> None:
        self.query: Final = query
        self.arrow: Final = arrow

    @overload
    def filter(self, predicate: str, /, *, otherwise: Literal[False] = False, name: str | None = None) -> Stream: ...

    @overload
    def filter(
        self, predicate: str, /, *predicates: str, otherwise: Literal[True], name: str | None = None
    ) -> tuple[Stream, ...]: ...

    @overload
    def filter(
        self, predicate: str, second: str, /, *predicates: str, otherwise: bool = False, name: str | None = None
    ) -> tuple[Stream, ...]: ...

    def filter(self, *predicates: str, otherwise: bool = False, name: str | None = None) -> Stream | tuple[Stream, ...]:
        """One stream per predicate; a tuple goes to the first that holds, the rest to one more if ``otherwise``.

        Returns a Stream if there is one output, otherwise a tuple of them.
        """
        texts = tuple(arguments.text("predicate", predicate, SQL_REMEDY) for predicate in predicates)
        streams = self.query._add(
            Filter(name="", input=self.arrow, predicates=texts, otherwise=arguments.flag("otherwise", otherwise)), name
        )
        return streams[0] if len(streams) == 1 else streams

    def map(self, columns: str, *, name: str | None = None) -> Stream:
        """One tuple for each tuple, with the columns of a SQL select list."""
        return self.query._add(
            Map(name="", input=self.arrow, columns=arguments.text("columns", columns, SQL_REMEDY)), name
        )[0]

    def python(
        self,
        function: str,
        columns: str,
        *,
        reads: str | Sequence[str] = (),
        deterministic: bool = False,
        name: str | None = None,
    ) -> Stream:
        """One tuple for each tuple, with further columns that a function makes.

        ``function`` is a name, ``module:function``. It gets a ``pyarrow.RecordBatch`` of the columns that it ``reads``
        (of all, if nothing is said) and returns ``columns``, one value for each row. ``deterministic`` says that it
        makes the same of a row whenever and wherever it is called.
        """
        python = Python(
            name="",
            input=self.arrow,
            function=arguments.text("function", function),
            columns=parse_schema(arguments.text("columns", columns)),
            reads=arguments.names("reads", reads),
            deterministic=arguments.flag("deterministic", deterministic),
        )
        return self.query._add(python, name)[0]

    def drop(self, which: float | str, *, seed: int = 0, name: str | None = None) -> Stream:
        """All tuples but those for which a predicate holds, or but a fraction of them.

        Which ones these are follows from seed and identity alone: every run drops the same.
        """
        if isinstance(which, str):
            drop = Drop(name="", input=self.arrow, predicate=which, seed=arguments.whole("seed", seed))
        else:
            drop = Drop(
                name="",
                input=self.arrow,
                fraction=arguments.fraction("which", which),
                seed=arguments.whole("seed", seed),
            )
        return self.query._add(drop, name)[0]

    def union(self, *others: Stream, name: str | None = None) -> Stream:
        return self.query.union(self, *others, name=name)

    @overload
    def aggregate(
        self,
        columns: str,
        *,
        window: Duration,
        by: str | Sequence[str] = (),
        every: Duration | None = None,
        emit_rows: int | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream: ...

    @overload
    def aggregate(
        self,
        columns: str,
        *,
        rows: int,
        by: str | Sequence[str] = (),
        every_rows: int | None = None,
        timeout: Duration | None = None,
        emit_rows: int | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream: ...

    def aggregate(
        self,
        columns: str,
        *,
        window: Duration | None = None,
        by: str | Sequence[str] = (),
        every: Duration | None = None,
        rows: int | None = None,
        every_rows: int | None = None,
        timeout: Duration | None = None,
        emit_rows: int | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """One tuple per group and window: of a time, or of a number of tuples.

        A window begins every ``every``, or with every ``every_rows``-th tuple of its group; by default, when the last
        one ends. With ``timeout``, a window of tuples is over so long after its first tuple, full or not. With
        ``emit_rows``, there is a result after every so many tuples of a window, too.
        Floating-point sums and averages are exact to ``scale`` digits after the point; without it only those are that
        something decides by, to 9 digits.
        """
        durations = Durations()
        window_us = durations.maybe("window", window)
        size = arguments.maybe_whole("rows", rows)
        aggregate = Aggregate(
            name="",
            input=self.arrow,
            columns=arguments.text("columns", columns, SQL_REMEDY),
            by=arguments.names("by", by),
            window_us=window_us,
            every_us=window_us if every is None else durations.read("every", every),
            rows=size,
            every_rows=size if every_rows is None else arguments.whole("every_rows", every_rows),
            timeout_us=durations.maybe("timeout", timeout),
            emit_rows=arguments.maybe_whole("emit_rows", emit_rows),
            scale=arguments.maybe_whole("scale", scale),
        )
        return self.query._add(aggregate, name, durations)[0]

    def session(
        self,
        columns: str,
        *,
        gap: Duration,
        by: str | Sequence[str] = (),
        emit_rows: int | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """One tuple per group and session, which is over when ``gap`` has passed without a tuple of the group; with
        ``emit_rows`` one after every so many tuples of a session, too."""
        durations = Durations()
        session = Session(
            name="",
            input=self.arrow,
            columns=arguments.text("columns", columns, SQL_REMEDY),
            by=arguments.names("by", by),
            gap_us=durations.read("gap", gap),
            emit_rows=arguments.maybe_whole("emit_rows", emit_rows),
            scale=arguments.maybe_whole("scale", scale),
        )
        return self.query._add(session, name, durations)[0]

    def tumble(
        self,
        columns: str,
        *,
        by: str | Sequence[str],
        timeout: Duration | None = None,
        emit_rows: int | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """One tuple per run of tuples with equal columns ``by``: when one with other values comes, or ``timeout`` after
        the first of the run; with ``emit_rows`` one after every so many tuples of a run, too."""
        durations = Durations()
        tumble = Tumble(
            name="",
            input=self.arrow,
            columns=arguments.text("columns", columns, SQL_REMEDY),
            by=arguments.names("by", by),
            timeout_us=durations.maybe("timeout", timeout),
            emit_rows=arguments.maybe_whole("emit_rows", emit_rows),
            scale=arguments.maybe_whole("scale", scale),
        )
        return self.query._add(tumble, name, durations)[0]

    def slide(
        self,
        columns: str,
        *,
        by: str | Sequence[str] = (),
        rows: int | None = None,
        window: Duration | None = None,
        every_rows: int | None = None,
        every: Duration | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """For each tuple, one over the last ``rows`` tuples of its group, or over those of the last ``window``.

        With ``every_rows``, only for every so many tuples of a group; with ``every``, at each multiple of it.
        """
        durations = Durations()
        slide = Slide(
            name="",
            input=self.arrow,
            columns=arguments.text("columns", columns, SQL_REMEDY),
            by=arguments.names("by", by),
            rows=arguments.maybe_whole("rows", rows),
            window_us=durations.maybe("window", window),
            every_rows=arguments.maybe_whole("every_rows", every_rows),
            every_us=durations.maybe("every", every),
            scale=arguments.maybe_whole("scale", scale),
        )
        return self.query._add(slide, name, durations)[0]

    def xsection(
        self,
        columns: str,
        *,
        window: Duration,
        by: str | Sequence[str] = (),
        every: Duration | None = None,
        expire: Duration | None = None,
        scale: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """At every multiple of ``every``, one tuple per live group, over the ``window`` before that moment.

        Groups without a new tuple have one, too, until their last tuple is more than ``expire`` old.
        """
        durations = Durations()
        window_us = durations.read("window", window)
        xsection = XSection(
            name="",
            input=self.arrow,
            columns=arguments.text("columns", columns, SQL_REMEDY),
            by=arguments.names("by", by),
            window_us=window_us,
            every_us=window_us if every is None else durations.read("every", every),
            expire_us=window_us if expire is None else durations.read("expire", expire),
            scale=arguments.maybe_whole("scale", scale),
        )
        return self.query._add(xsection, name, durations)[0]

    def join(self, other: Stream, *, on: str, within: Duration, name: str | None = None) -> Stream:
        """One tuple per pair whose times differ by less than ``within`` and for which ``on`` holds."""
        durations = Durations()
        join = Join(
            name="",
            left=self.arrow,
            right=self.query._arrow(other),
            on=arguments.text("on", on, SQL_REMEDY),
            within_us=durations.read("within", within),
        )
        return self.query._add(join, name, durations)[0]

    def latest(
        self,
        other: Stream,
        *,
        on: str | None = None,
        outer: bool = False,
        within: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """Each tuple with the newest of the other stream that is not later than itself: what a lookup in a table that
        the other stream keeps up to date would find, the same on every replica.

        ``on`` is equalities between columns of both. A tuple without a partner is gone, or has NULL if ``outer``.
        """
        durations = Durations()
        latest = Latest(
            name="",
            left=self.arrow,
            right=self.query._arrow(other),
            on=arguments.maybe_text("on", on, SQL_REMEDY),
            outer=arguments.flag("outer", outer),
            within_us=durations.maybe("within", within),
        )
        return self.query._add(latest, name, durations)[0]

    def lookup(self, table: Table, *, on: str, outer: bool = False, name: str | None = None) -> Stream:
        """Each tuple with every row of a table that has equal keys: ``on`` is equalities between columns of both.

        A tuple without such a row is gone, or has NULL in the table's columns if ``outer``.
        """
        if not isinstance(table, Table):
            raise arguments.misuse(
                f"table: {table!r} is not a table.", "Pass what `Query.table` returned.", query=self.query.name
            )
        lookup = Lookup(
            name="",
            input=self.arrow,
            table=table,
            on=arguments.text("on", on, SQL_REMEDY),
            outer=arguments.flag("outer", outer),
        )
        return self.query._add(lookup, name)[0]

    def resample(
        self,
        other: Stream,
        columns: str | Sequence[str],
        *,
        how: str,
        within: Duration,
        on: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Each tuple with what columns of the other stream are at its time: ``linear`` between the values before and
        after, the ``previous`` one, the ``nearest`` or the ``mean``, of tuples less than ``within`` away."""
        durations = Durations()
        resample = Resample(
            name="",
            left=self.arrow,
            right=self.query._arrow(other),
            columns=arguments.names("columns", columns),
            how=arguments.text("how", how),
            within_us=durations.read("within", within),
            on=arguments.maybe_text("on", on, SQL_REMEDY),
        )
        return self.query._add(resample, name, durations)[0]

    def dedup(self, by: str | Sequence[str], *, horizon: Duration, name: str | None = None) -> Stream:
        """All tuples but those for which one with equal columns ``by`` passed less than ``horizon`` before."""
        durations = Durations()
        dedup = Dedup(
            name="", input=self.arrow, by=arguments.names("by", by), horizon_us=durations.read("horizon", horizon)
        )
        return self.query._add(dedup, name, durations)[0]

    def wsort(self, by: str | Sequence[str], *, timeout: Duration, name: str | None = None) -> tuple[Stream, Stream]:
        """Two streams: tuples in the order of columns ``by``, each ``timeout`` after its time at the latest; and those
        that came after one that sorts behind them had left."""
        durations = Durations()
        wsort = WSort(
            name="", input=self.arrow, by=arguments.names("by", by), timeout_us=durations.read("timeout", timeout)
        )
        in_order, late = self.query._add(wsort, name, durations)
        return in_order, late

    def __repr__(self) -> str:
        return f"<stream {self.arrow} of {self.query.name!r}>"


def derived_name(box: Box) -> str:
    """The name of a box that was given none: its kind and a hash of all it is, the same in every process."""
    contents = json.dumps([kind_name(box), parameters(box)], sort_keys=True, separators=(",", ":"))
    return f"{kind_name(box)}_{hashlib.sha256(contents.encode()).hexdigest()[:8]}"

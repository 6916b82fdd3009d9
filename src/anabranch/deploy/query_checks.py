"""What can be wrong with one query of a deployment: its file, its mode, and where its parts are placed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anabranch.deploy import mistakes
from anabranch.deploy.comparing import LEAVE_OUT, unfit_for, unknown_technique
from anabranch.deploy.description import Description, EntryTable, QueryTable
from anabranch.deploy.mistakes import Report, twice
from anabranch.errors import ConfigError, QueryError
from anabranch.model.techniques import COMPARED, Technique
from anabranch.model.times import SECOND, format_duration
from anabranch.query import classes
from anabranch.query.boxes import Diagram, Output, Source
from anabranch.query.connectors import SparkFeed
from anabranch.query.files import load
from anabranch.query.flow import Placement, circles, flow
from anabranch.query.problems import candidates

SOONEST_TAKEOVER_US: Final = SECOND
SINGLE: Final = "single"
RACE: Final = "race"
MODES: Final = (SINGLE, RACE)
_LATER: Final = ("amnesia", "upstream_backup", "passive_standby", "active_standby", "dpc")


def names_of(query: QueryTable) -> Iterator[str]:
    """All nodes that a query names."""
    yield from query.on
    for nodes in query.place.values():
        yield from nodes
    for entry in query.entry.values():
        yield from entry.nodes
    yield from query.write.values()


def fed_lane(source: Source) -> str | None:
    """The lane that the feed of a source fills; None without a feed."""
    if source.feed is None:
        return None
    return source.feed.producer if source.feed.producer in source.producers else source.lanes[0]


def placement(query: QueryTable, diagram: Diagram) -> Placement:
    """The nodes of each box and source; none for those that are not placed."""
    nowhere = EntryTable()
    return {
        box.name: query.entry.get(box.name, nowhere).nodes
        if isinstance(box, Source)
        else query.place.get(box.name, query.on)
        for box in diagram.boxes
    }


def check_query(name: str, description: Description, base: Path, report: Report) -> Diagram | None:
    """Notes all that is wrong with a query and returns its diagram, if there is one."""
    checking = _Checking(name, description, report)
    checking.check_mode()
    checking.check_technique()
    checking.check_nodes()
    diagram, is_valid = checking.read_diagram(base)
    if diagram is not None:
        checking.check_places(diagram)
        checking.check_entries(diagram)
        checking.check_writers(diagram)
        checking.check_flow(diagram, is_valid=is_valid)
    return diagram


class _Checking:
    """One query of a deployment, part by part."""

    def __init__(self, name: str, description: Description, report: Report) -> None:
        self._name = name
        self._query = description.queries[name]
        self._nodes = description.nodes
        self._report = report

    def _at(self, *keys: str) -> mistakes.Path:
        return ("queries", self._name, *keys)

    def _note(self, code: str, keys: tuple[str, ...], message: str, remedy: str) -> None:
        self._report.add(code, self._at(*keys), message, remedy)

    def check_mode(self) -> None:
        mode = self._query.mode
        if not mode:
            self._note("missing-key", ("mode",), "The query has no mode.", f'Add mode = "{SINGLE}" or "{RACE}".')
        elif mode in _LATER:
            message = f"The mode {mode} is not available yet."
            self._note("bad-mode", ("mode",), message, f"Write {' or '.join(MODES)}.")
        elif mode not in MODES:
            self._note("bad-mode", ("mode",), f"There is no mode {mode!r}.", candidates(mode, MODES))

    def check_technique(self) -> None:
        unknown = unknown_technique(self._query.technique)
        if unknown is not None:
            self._note("bad-technique", ("technique",), *unknown)
        elif self._query.technique and self._query.mode != RACE:
            message = f"The technique {self._query.technique} needs mode {RACE}."
            self._note("bad-technique", ("technique",), message, f'Write mode = "{RACE}".')

    def check_nodes(self) -> None:
        """Every name of a node is known, and stands once in its list."""
        lists: dict[tuple[str, ...], tuple[str, ...]] = {("on",): self._query.on}
        lists |= {("place", box): nodes for box, nodes in self._query.place.items()}
        lists |= {("entry", source): entry.nodes for source, entry in self._query.entry.items()}
        lists |= {("entry", source, "feed"): entry.feed for source, entry in self._query.entry.items()}
        lists |= {("write", output): (node,) for output, node in self._query.write.items()}
        for keys, nodes in lists.items():
            for node in dict.fromkeys(nodes):
                if node not in self._nodes:
                    message = f"There is no node {node!r}."
                    self._note("unknown-node", keys, message, candidates(node, self._nodes))
            for node in twice(nodes):
                what = "an entry point" if keys[0] == "entry" and keys[-1] != "feed" else "a replica"
                what = "a home of the feed" if keys[-1] == "feed" else what
                message = f"{node} is listed twice: a node can be {what} only once."
                self._note("node-twice", keys, message, "Name another node, or leave it out.")

    def read_diagram(self, base: Path) -> tuple[Diagram | None, bool]:
        """The query's diagram, and whether it has no problems."""
        file = self._query.file
        if not file:
            self._note("missing-key", ("file",), "The query has no file.", 'Add file = "query.yaml".')
            return None, False
        try:
            query = load(base / file)
            problems = query.validate()
        except ConfigError as error:
            self._note("query", ("file",), error.message, error.remedy)
            return None, False
        except QueryError as error:
            for problem in error.problems:
                self._note("query", ("file",), str(problem), "")
            return None, False
        diagram = query.diagram()
        if diagram.name != self._name:
            message = f"The query in {file} is called {diagram.name!r}."
            self._note("query-name", (), message, f"Write [queries.{diagram.name}], or change the file.")
        problems += classes.refusals(diagram, self._query.mode) if self._query.mode in MODES and not problems else []
        for problem in problems:
            self._note("query", ("file",), str(problem), "")
        return diagram, not problems

    # --- boxes -----------------------------------------------------------------------------------------------------

    def check_places(self, diagram: Diagram) -> None:
        boxes = [box.name for box in diagram.boxes if not isinstance(box, Source)]
        sources = [source.name for source in diagram.sources]
        for name in self._query.place:
            if name in sources:
                message = f"{name!r} is a source: nodes do not run it."
                self._note("unknown-box", ("place", name), message, f"Name its entry points: entry.{name}.")
            elif name not in boxes:
                message = f"The query has no box {name!r}."
                self._note("unknown-box", ("place", name), message, candidates(name, boxes))
        for name in boxes:
            if not self._query.place.get(name, self._query.on) and not self._report.is_told(self._at("on")):
                message = f"No node runs the box {name!r}."
                remedy = f'Add place.{name} = ["a node"], or on = ["a node"] for all boxes.'
                self._note("placed-nowhere", ("place", name), message, remedy)
        self._check_single(boxes)

    def _check_single(self, boxes: list[str]) -> None:
        if self._query.mode != SINGLE:
            return
        lists: dict[tuple[str, ...], tuple[str, ...]] = {("on",): self._query.on}
        lists |= {("place", name): self._query.place[name] for name in boxes if name in self._query.place}
        lists |= {("entry", name): entry.nodes for name, entry in self._query.entry.items()}
        for keys, nodes in lists.items():
            if len(nodes) > 1:
                message = f"Mode {SINGLE} allows one copy, but {len(nodes)} are given: {', '.join(nodes)}."
                self._note("several-copies", keys, message, f'Name one node, or write mode = "{RACE}".')

    # --- sources and outputs ---------------------------------------------------------------------------------------

    def check_entries(self, diagram: Diagram) -> None:
        sources = {source.name: source for source in diagram.sources}
        for name, entry in self._query.entry.items():
            if name in sources:
                self._check_entry(sources[name], entry)
            else:
                message = f"The query has no source {name!r}."
                self._note("unknown-source", ("entry", name), message, candidates(name, sources))
        for name in sources:
            if (name not in self._query.entry or not self._query.entry[name].nodes) and not self._report.told_below(
                self._at("entry", name)
            ):
                message = f"No node accepts the rows of the source {name!r}."
                self._note("no-entry-point", ("entry", name), message, f'Add entry.{name} = ["a node"].')

    def _check_entry(self, source: Source, entry: EntryTable) -> None:
        for producer, home in entry.producers.items():
            keys = ("entry", source.name, "producers", producer)
            if producer not in source.producers:
                message = f"The source {source.name!r} has no producer {producer!r}."
                remedy = candidates(producer, source.producers) or "Leave it out: the source declares no producers."
                self._note("unknown-producer", keys, message, remedy)
            if home not in entry.nodes:
                message = f"{home!r} is not an entry point of the source {source.name!r}."
                self._note("unknown-node", keys, message, candidates(home, entry.nodes))
        self._check_feed(source, entry)
        if isinstance(source.feed, SparkFeed) and source.feed.lane is None and len(entry.nodes) > 1:
            message = f"The rows of {source.name!r} carry no numbers, so a single node must number them."
            remedy = "Name one entry point, or give the feed a lane and a number."
            self._note("entry-alone", ("entry", source.name), message, remedy)

    def _check_feed(self, source: Source, entry: EntryTable) -> None:
        keys = ("entry", source.name, "feed")
        for node in entry.feed:
            if node not in entry.nodes:
                message = f"{node!r} is no entry point of the source {source.name!r}, so its feed cannot run there."
                self._note("unknown-node", keys, message, candidates(node, entry.nodes))
        fed = fed_lane(source)
        home = entry.producers.get(fed, "") if fed is not None else ""
        if entry.feed and fed is None:
            message = f"The source {source.name!r} has no feed."
            self._note("bad-feed", keys, message, "Leave the key out, or give the source a feed.")
        elif entry.feed and home not in ("", entry.feed[0]):
            message = f"The feed of {source.name!r} begins at {entry.feed[0]}, and its producer {fed!r} at {home}."
            self._note("bad-feed", keys, message, f"Leave the producer out, or name {home} first.")
        elif len(entry.feed) > 1 and isinstance(source.feed, SparkFeed):
            message = f"A feed of Spark keeps its place in a checkpoint of one node: that of {source.name!r}."
            self._note("bad-feed", keys, message, "Name one node.")
        elif len(entry.feed) > 1 and not source.producers:
            message = (
                f"The source {source.name!r} declares no producer, so two copies of its feed would be two clients."
            )
            self._note("bad-feed", keys, message, "Declare a producer for the feed, or name one node.")
        if entry.takeover_us is not None and len(entry.feed) < 2:
            message = f"The feed of {source.name!r} has no second node that could take it over."
            self._note("bad-feed", ("entry", source.name, "takeover"), message, 'Name them: feed = ["a", "b"].')
        elif entry.takeover_us is not None and entry.takeover_us < SOONEST_TAKEOVER_US:
            message = f"A feed cannot be taken over after {format_duration(entry.takeover_us)}: answers take as long."
            self._note("bad-value", ("entry", source.name, "takeover"), message, "Write 1s or more.")

    def check_writers(self, diagram: Diagram) -> None:
        writing = {output.name: output for output in diagram.outputs if output.to}
        names = [output.name for output in diagram.outputs]
        for name in self._query.write:
            if name not in names:
                message = f"The query has no output {name!r}."
                self._note("unknown-output", ("write", name), message, candidates(name, names))
            elif name not in writing:
                message = f"The output {name!r} has no writers."
                self._note("unknown-output", ("write", name), message, "Leave it out, or give the output writers.")
        for output in writing.values():
            self._check_writer(output, diagram)

    def _check_writer(self, output: Output, diagram: Diagram) -> None:
        copies = placement(self._query, diagram).get(output.input.box, ())
        if len(copies) > 1 and output.name not in self._query.write:
            message = f"The output {output.name!r} has writers and {len(copies)} copies: each would write."
            remedy = f'Choose the node that writes: write.{output.name} = "{copies[0]}".'
            self._note("writer-nowhere", ("write", output.name), message, remedy)

    # --- between nodes ---------------------------------------------------------------------------------------------

    def check_flow(self, diagram: Diagram, *, is_valid: bool) -> None:
        placed = placement(self._query, diagram)
        known = all(nodes and self._nodes.keys() >= set(nodes) for nodes in placed.values())
        if not is_valid or not known:
            return
        found = flow(diagram, placed)
        for circle in circles(diagram, found):
            way = ", ".join(f"{each.reader} reads {each.stream} from {' and '.join(each.copies)}" for each in circle)
            message = f"Nodes wait for each other in a cycle: {way}."
            self._note("node-cycle", ("place",), message, "Place the boxes so that results flow one way.")
        technique = self._query.technique
        if technique in COMPARED and self._query.mode == RACE:
            reason = unfit_for(Technique(technique), diagram, found)
            if reason is not None:
                message = f"The technique {technique} cannot be used here. {reason}"
                self._note("bad-technique", ("technique",), message, LEAVE_OUT)

"""A query as plain data: dictionaries and lists, which ``files`` writes as YAML.

    query: slow_paths
    boxes:
      - source: {name: ping, schema: "source string, target string, rtt_ms double"}
      - filter: {name: slow, input: ping, where: ["rtt_ms > 1000"]}
    outputs:
      slow_pings: slow                                    # or {input: slow, to: [jsonl:slow.jsonl]}
    tables:                                               # if a Lookup reads any
      hosts: {schema: "host string, site string", key: host, file: hosts.csv}

``kinds`` says, for each kind of box, its keys and how each is written; reading and writing both follow it, so what is
written reads back as the same diagram. A mistake does not stop the reading: it is noted with its place, and something
that ``validate`` knows to be empty stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from anabranch.errors import Problem, with_article
from anabranch.query import catalog
from anabranch.query.boxes import Box, Diagram, Lookup, Output, Table, kind_name
from anabranch.query.keys import ARROW, LIST, TABLE_KEYS, TEXT, WRITERS, Form, Key, Unreadable
from anabranch.query.problems import Place, candidates

Mistakes = dict[Place, Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A diagram as read, and what could not be read."""

    diagram: Diagram
    mistakes: Mistakes


def parameters(box: Box) -> dict[str, object]:
    """Everything that a box is besides its name and kind, as plain data, defaults left out."""
    return _written(box, catalog.kind(box).keys)


def _written(thing: Box | Table, keys: Sequence[Key]) -> dict[str, object]:
    written: dict[str, object] = {}
    for key in keys:
        value = getattr(thing, key.field)
        if value != (getattr(thing, key.default_from) if key.default_from else key.default):
            written[key.name] = key.form.write(value)
    return written


def diagram_to_dict(diagram: Diagram) -> dict[str, Any]:
    """The diagram as plain data. Output names must differ, as they do in a valid diagram."""
    tables = {table.name: _written(table, TABLE_KEYS) for table in diagram.tables}
    return {
        "query": diagram.name,
        "boxes": [{kind_name(box): {"name": box.name, **parameters(box)}} for box in diagram.boxes],
        "outputs": {output.name: _output_to_plain(output) for output in diagram.outputs},
        **({"tables": tables} if tables else {}),
    }


def _output_to_plain(output: Output) -> object:
    """The arrow alone, or with the writers beside it."""
    arrow = str(output.input)
    return {"input": arrow, "to": WRITERS.write(output.to)} if output.to else arrow


def diagram_from_dict(data: object) -> Draft:
    """The diagram that ``diagram_to_dict`` wrote, or that a person did."""
    return _Reader().read(data)


class _Reader:
    """One reading: notes every mistake and goes on."""

    def __init__(self) -> None:
        self._mistakes: Final[Mistakes] = {}

    def read(self, data: object) -> Draft:
        top = self._mapping("", "the query", data)
        self._unknown_keys("", "the query", top, ("query", "boxes", "outputs", "tables"), [])
        name = self._value("", "query", "query", TEXT, top.get("query", ""))
        boxes = self._value("", "boxes", "boxes", LIST, top.get("boxes", []))
        outputs = self._mapping("outputs", "outputs", top.get("outputs", {}))
        declared = self._mapping("tables", "tables", top.get("tables", {}))
        tables = {str(key): self._table(str(key), value) for key, value in declared.items()}
        read = tuple(self._box(f"boxes[{index}]", entry) for index, entry in enumerate(boxes))
        found = tuple(self._with_table(box, tables) for box in read if box is not None)
        self._unused_tables(tables, found)
        diagram = Diagram(
            name=name,
            boxes=found,
            outputs=tuple(self._output(str(key), value) for key, value in outputs.items()),
        )
        return Draft(diagram=diagram, mistakes=self._mistakes)

    def _output(self, name: str, value: object) -> Output:
        place = f"outputs.{name}"
        if not isinstance(value, dict):
            return Output(name=name, input=self._value(name, "input", place, ARROW, value))
        self._unknown_keys(name, place, value, ("input", "to"), [])
        return Output(
            name=name,
            input=self._value(name, "input", f"{place}.input", ARROW, value.get("input")),
            to=self._value(name, "to", f"{place}.to", WRITERS, value.get("to", [])),
        )

    def _table(self, name: str, value: object) -> Table:
        place = f"tables.{name}"
        keys = self._mapping(name, place, value)
        return Table(name=name, **self._attributes(TABLE_KEYS, name, place, keys, ()))

    def _with_table(self, box: Box, tables: dict[str, Table]) -> Box:
        """A Lookup with the table that it names."""
        if not isinstance(box, Lookup) or (box.name, "table") in self._mistakes:
            return box
        name = box.table.name
        if name not in tables:
            message = f"table: there is no table {name!r}."
            remedy = candidates(name, tables) or "Declare it: tables: {name: {schema: ..., key: ..., file: ...}}."
            self._note(box.name, "table", "unknown-table", message, remedy)
            return box
        return replace(box, table=tables[name])

    def _unused_tables(self, tables: dict[str, Table], boxes: tuple[Box, ...]) -> None:
        """One that nobody names is not part of the diagram. With a name that leads nowhere, it only seems unused."""
        named = {box.table.name for box in boxes if isinstance(box, Lookup)}
        if not named <= tables.keys():
            return
        for name in tables.keys() - named:
            self._note(name, "name", "unused-box", "No lookup reads this table.", "Read it, or remove it.")

    def _box(self, place: str, entry: object) -> Box | None:
        if not isinstance(entry, dict) or len(entry) != 1:
            shape = "a list of mappings with one key each, the kind of the box"
            self._note(place, "kind", "wrong-type", f"{place} is not one box.", f"Boxes are {shape}.")
            return None
        kind, body = next(iter(entry.items()))
        if kind not in catalog.KINDS:
            remedy = candidates(str(kind), catalog.KINDS)
            self._note(place, "kind", "unknown-key", f"{place}: there is no kind of box `{kind}`.", remedy)
            return None
        place = f"{place}.{kind}"
        keys = self._mapping(place, place, body)
        name = keys.get("name")
        box = name if isinstance(name, str) and name else place
        if box is place and isinstance(body, dict):
            self._note(box, "name", "missing-key", f"{place} has no name.", "Give the box a name.")
        made: Box = catalog.KINDS[kind].makes(
            name=box, **self._attributes(catalog.KINDS[kind].keys, box, place, keys, ("name",))
        )
        return made

    def _attributes(
        self, table: Sequence[Key], box: str, place: str, keys: dict[object, object], more: tuple[str, ...]
    ) -> dict[str, Any]:
        """The values of these keys; ``more`` are others that may be there."""
        wanted = [name for key in table if key.missing_from(keys) for name in (key.name, key.unless) if name]
        misspelt = self._unknown_keys(box, place, keys, (*more, *(key.name for key in table)), wanted)
        absent = [key for key in table if key.missing_from(keys, misspelt)]
        for key in absent:
            remedy = f"Add `{key.name}`" + (f" or `{key.unless}`." if key.unless else ".")
            self._note(box, key.name, "missing-key", f"{place} has no key `{key.name}`.", remedy)
        values: dict[str, Any] = {}
        for key in table:
            if key.name in keys:
                where = f"{place}.{key.name}"
                values[key.field] = self._value(box, key.name, where, key.form, keys[key.name])
            elif key in absent or key.name in misspelt:
                values[key.field] = key.form.empty
            else:
                values[key.field] = values[key.default_from] if key.default_from else key.default
        return values

    def _unknown_keys(
        self, box: str, place: str, keys: dict[object, object], known: tuple[str, ...], wanted: list[str]
    ) -> dict[str, object]:
        """Notes keys that mean nothing. One that looks like a wanted key is taken for it: one mistake, not two.

        Returns the keys that these were taken for, with what is written there.
        """
        misspelt: dict[str, object] = {}
        for key in keys:
            if key in known:
                continue
            close = get_close_matches(str(key), [name for name in wanted if name not in misspelt], n=1)
            field = close[0] if close else str(key)
            if close:
                misspelt[field] = keys[key]
            self._note(box, field, "unknown-key", f"{place} has an unknown key `{key}`.", candidates(str(key), known))
        return misspelt

    def _value(self, box: str, field: str, where: str, form: Form, value: object) -> Any:
        try:
            return form.read(value)
        except Unreadable as error:
            code, message, remedy = error.problem
            self._note(box, field, code, f"{where}: {message}", remedy)
            return form.empty

    def _mapping(self, box: str, place: str, value: object) -> dict[object, object]:
        if isinstance(value, dict):
            return value
        self._note(
            box,
            "name",
            "wrong-type",
            f"{place}: {value!r} is {with_article(type(value).__name__)}.",
            "Write a mapping.",
        )
        return {}

    def _note(self, box: str, field: str, code: str, message: str, remedy: str) -> None:
        self._mistakes[(box, field)] = Problem(code=code, box=box, message=message, remedy=remedy)

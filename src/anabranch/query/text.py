"""A query as plain data: dictionaries and lists, which ``files`` writes as YAML.

    query: slow_paths
    boxes:
      - source: {name: ping, schema: "source string, target string, rtt_ms double"}
      - filter: {name: slow, input: ping, where: ["rtt_ms > 1000"]}
    outputs:
      slow_pings: slow                                    # or {input: slow, to: [jsonl:slow.jsonl]}

One table says, for each kind of box, its keys and how each is written; reading and writing both follow it, so what is
written reads back as the same diagram. A mistake does not stop the reading: it is noted with its place, and something
that ``validate`` knows to be empty stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from anabranch.errors import ConfigError, Problem
from anabranch.model.times import format_duration, parse_duration
from anabranch.query.boxes import Aggregate, Arrow, Box, Diagram, Drop, Filter, Join, Map, Output, Source, Union
from anabranch.query.connectors import Writer
from anabranch.query.problems import Place, candidates
from anabranch.query.schema import format_schema, parse_schema
from anabranch.query.specs import feed_from, feed_to_plain, writer_from, writer_to_plain

UNREADABLE: Final = -1
"""Stands for a duration, number or fraction that could not be read."""
KINDS: Final[Mapping[str, type[Box]]] = {
    "source": Source,
    "filter": Filter,
    "map": Map,
    "drop": Drop,
    "union": Union,
    "aggregate": Aggregate,
    "join": Join,
}
Mistakes = dict[Place, Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A diagram as read, and what could not be read."""

    diagram: Diagram
    mistakes: Mistakes


class _Unreadable(Exception):
    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.problem = (code, message, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How one sort of value is written: both ways, and what stands in for one that cannot be read."""

    read: Callable[[object], object]
    write: Callable[[Any], object]
    empty: object


def _expect(kind: type, value: object, remedy: str) -> Any:
    if not isinstance(value, kind):
        raise _Unreadable("wrong-type", f"{value!r} is a {type(value).__name__}.", remedy)
    return value


def _read_text(value: object) -> str:
    return str(_expect(str, value, "Write text."))


def _read_flag(value: object) -> bool:
    return bool(_expect(bool, value, "Write true or false."))


def _read_whole(value: object) -> int:
    if isinstance(value, bool):
        raise _Unreadable("wrong-type", f"{value!r} is a bool.", "Write a whole number.")
    return int(_expect(int, value, "Write a whole number."))


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unreadable("wrong-type", f"{value!r} is a {type(value).__name__}.", "Write a number such as 0.1.")
    return float(value)


def _read_duration(value: object) -> int:
    text = _expect(str, value, "Write a number and a unit: 500ms, 10s, 5m, 1.5h or 2d.")
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise _Unreadable("bad-duration", error.message, error.remedy) from error


def read_arrow(value: object) -> Arrow:
    """``box``, or ``box.1`` for its port 1."""
    remedy = "Write the name of a box, or box.1 for its second output."
    match = re.fullmatch(r"([^.]+)(?:\.([0-9]{1,6}))?", _expect(str, value, remedy))
    if match is None:
        raise _Unreadable("wrong-type", f"{value!r} is not an arrow.", remedy)
    return Arrow(match[1], int(match[2] or 0))


def _list_of(read: Callable[[object], Any], *, split: bool = False) -> Callable[[object], tuple[Any, ...]]:
    """A list; where commas cannot be part of a value, also one text with commas; else also a single value."""

    def read_list(value: object) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = [piece.strip() for piece in value.split(",") if piece.strip()] if split else [value]
        return tuple(read(item) for item in _expect(list, value, "Write a list."))

    return read_list


def _read_feed(value: object) -> object:
    try:
        return feed_from(value)
    except ConfigError as error:
        raise _Unreadable("bad-connector", error.message, error.remedy) from error


def _read_writers(value: object) -> tuple[Writer, ...]:
    """One writer, or a list of them."""
    try:
        found = [writer_from(each) for each in (value if isinstance(value, list) else [value])]
    except ConfigError as error:
        raise _Unreadable("bad-connector", error.message, error.remedy) from error
    return tuple(writer for writer in found if writer is not None)


_TEXT: Final = _Form(read=_read_text, write=str, empty="")
_TEXTS: Final = _Form(read=_list_of(_read_text), write=list, empty=())
_NAMES: Final = _Form(read=_list_of(_read_text, split=True), write=list, empty=())
_FLAG: Final = _Form(read=_read_flag, write=bool, empty=False)
_WHOLE: Final = _Form(read=_read_whole, write=int, empty=UNREADABLE)
_NUMBER: Final = _Form(read=_read_number, write=float, empty=UNREADABLE)
_DURATION: Final = _Form(read=_read_duration, write=format_duration, empty=UNREADABLE)
_ARROW: Final = _Form(read=read_arrow, write=str, empty=Arrow(""))
_ARROWS: Final = _Form(read=_list_of(read_arrow, split=True), write=lambda arrows: [str(a) for a in arrows], empty=())
_SCHEMA: Final = _Form(read=lambda value: parse_schema(_read_text(value)), write=format_schema, empty=())
_FEED: Final = _Form(read=_read_feed, write=feed_to_plain, empty=None)
_WRITERS: Final = _Form(read=_read_writers, write=lambda writers: [writer_to_plain(w) for w in writers], empty=())
_LIST: Final = _Form(read=lambda value: _expect(list, value, "Write a list."), write=list, empty=[])

_REQUIRED: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """One key of a box: which attribute it is, how it is written, what it is when left out.

    A key may be left out if it has a default; with ``unless``, only beside that other key.
    """

    name: str
    attribute: str
    form: _Form
    default: object = _REQUIRED
    default_from: str = ""
    unless: str = ""

    def missing_from(self, *given: Mapping[Any, object]) -> bool:
        names = {name for keys in given for name in keys}
        if self.name in names or self.default_from:
            return False
        return self.default is _REQUIRED or bool(self.unless and self.unless not in names)


_KEYS: Final[Mapping[str, tuple[_Key, ...]]] = {
    "source": (
        _Key(name="schema", attribute="schema", form=_SCHEMA),
        _Key(name="time", attribute="time", form=_TEXT, default=None),
        _Key(name="disorder", attribute="disorder_us", form=_DURATION, default=0),
        _Key(name="idle", attribute="idle_us", form=_DURATION, default=None),
        _Key(name="silence", attribute="silence_us", form=_DURATION, default=None),
        _Key(name="producers", attribute="producers", form=_NAMES, default=()),
        _Key(name="feed", attribute="feed", form=_FEED, default=None),
    ),
    "filter": (
        _Key(name="input", attribute="input", form=_ARROW),
        _Key(name="where", attribute="predicates", form=_TEXTS),
        _Key(name="otherwise", attribute="otherwise", form=_FLAG, default=False),
    ),
    "map": (
        _Key(name="input", attribute="input", form=_ARROW),
        _Key(name="columns", attribute="columns", form=_TEXT),
    ),
    "drop": (
        _Key(name="input", attribute="input", form=_ARROW),
        _Key(name="fraction", attribute="fraction", form=_NUMBER, default=None, unless="where"),
        _Key(name="seed", attribute="seed", form=_WHOLE, default=0),
        _Key(name="where", attribute="predicate", form=_TEXT, default=None),
    ),
    "union": (_Key(name="inputs", attribute="inputs", form=_ARROWS),),
    "aggregate": (
        _Key(name="input", attribute="input", form=_ARROW),
        _Key(name="columns", attribute="columns", form=_TEXT),
        _Key(name="by", attribute="by", form=_NAMES, default=()),
        _Key(name="window", attribute="window_us", form=_DURATION, default=None, unless="rows"),
        _Key(name="every", attribute="every_us", form=_DURATION, default_from="window_us"),
        _Key(name="rows", attribute="rows", form=_WHOLE, default=None),
        _Key(name="every_rows", attribute="every_rows", form=_WHOLE, default_from="rows"),
        _Key(name="scale", attribute="scale", form=_WHOLE, default=None),
    ),
    "join": (
        _Key(name="left", attribute="left", form=_ARROW),
        _Key(name="right", attribute="right", form=_ARROW),
        _Key(name="on", attribute="on", form=_TEXT),
        _Key(name="within", attribute="within_us", form=_DURATION),
    ),
}


def kind_of(box: Box) -> str:
    return type(box).__name__.lower()


def title(box: Box) -> str:
    """Kind and name; a derived name begins with the kind already."""
    return box.name if box.name.startswith(f"{kind_of(box)}_") else f"{kind_of(box)} {box.name}"


def parameters(box: Box) -> dict[str, object]:
    """Everything that a box is besides its name and kind, as plain data, defaults left out."""
    written: dict[str, object] = {}
    for key in _KEYS[kind_of(box)]:
        value = getattr(box, key.attribute)
        if value != (getattr(box, key.default_from) if key.default_from else key.default):
            written[key.name] = key.form.write(value)
    return written


def diagram_to_dict(diagram: Diagram) -> dict[str, Any]:
    """The diagram as plain data. Output names must differ, as they do in a valid diagram."""
    return {
        "query": diagram.name,
        "boxes": [{kind_of(box): {"name": box.name, **parameters(box)}} for box in diagram.boxes],
        "outputs": {output.name: _output_to_plain(output) for output in diagram.outputs},
    }


def _output_to_plain(output: Output) -> object:
    """The arrow alone, or with the writers beside it."""
    arrow = str(output.input)
    return {"input": arrow, "to": _WRITERS.write(output.to)} if output.to else arrow


def diagram_from_dict(data: object) -> Draft:
    """The diagram that ``diagram_to_dict`` wrote, or that a person did."""
    return _Reader().read(data)


class _Reader:
    """One reading: notes every mistake and goes on."""

    def __init__(self) -> None:
        self._mistakes: Final[Mistakes] = {}

    def read(self, data: object) -> Draft:
        top = self._mapping("", "the query", data)
        self._unknown_keys("", "the query", top, ("query", "boxes", "outputs"), [])
        name = self._value("", "query", "query", _TEXT, top.get("query", ""))
        boxes = self._value("", "boxes", "boxes", _LIST, top.get("boxes", []))
        outputs = self._mapping("outputs", "outputs", top.get("outputs", {}))
        read = tuple(self._box(f"boxes[{index}]", entry) for index, entry in enumerate(boxes))
        diagram = Diagram(
            name=name,
            boxes=tuple(box for box in read if box is not None),
            outputs=tuple(self._output(str(key), value) for key, value in outputs.items()),
        )
        return Draft(diagram=diagram, mistakes=self._mistakes)

    def _output(self, name: str, value: object) -> Output:
        place = f"outputs.{name}"
        if not isinstance(value, dict):
            return Output(name=name, input=self._value(name, "input", place, _ARROW, value))
        self._unknown_keys(name, place, value, ("input", "to"), [])
        return Output(
            name=name,
            input=self._value(name, "input", f"{place}.input", _ARROW, value.get("input")),
            to=self._value(name, "to", f"{place}.to", _WRITERS, value.get("to", [])),
        )

    def _box(self, place: str, entry: object) -> Box | None:
        if not isinstance(entry, dict) or len(entry) != 1:
            shape = "a list of mappings with one key each, the kind of the box"
            self._note(place, "kind", "wrong-type", f"{place} is not one box.", f"Boxes are {shape}.")
            return None
        kind, body = next(iter(entry.items()))
        if kind not in KINDS:
            remedy = candidates(str(kind), KINDS)
            self._note(place, "kind", "unknown-key", f"{place}: there is no kind of box `{kind}`.", remedy)
            return None
        place = f"{place}.{kind}"
        keys = self._mapping(place, place, body)
        name = keys.get("name")
        box = name if isinstance(name, str) and name else place
        if box is place and isinstance(body, dict):
            self._note(box, "name", "missing-key", f"{place} has no name.", "Give the box a name.")
        return KINDS[kind](name=box, **self._attributes(kind, box, place, keys))

    def _attributes(self, kind: str, box: str, place: str, keys: dict[object, object]) -> dict[str, Any]:
        table = _KEYS[kind]
        wanted = [name for key in table if key.missing_from(keys) for name in (key.name, key.unless) if name]
        misspelt = self._unknown_keys(box, place, keys, ("name", *(key.name for key in table)), wanted)
        absent = [key for key in table if key.missing_from(keys, misspelt)]
        for key in absent:
            remedy = f"Add `{key.name}`" + (f" or `{key.unless}`." if key.unless else ".")
            self._note(box, key.name, "missing-key", f"{place} has no key `{key.name}`.", remedy)
        values: dict[str, Any] = {}
        for key in table:
            if key.name in keys:
                where = f"{place}.{key.name}"
                values[key.attribute] = self._value(box, key.name, where, key.form, keys[key.name])
            elif key in absent or key.name in misspelt:
                values[key.attribute] = key.form.empty
            else:
                values[key.attribute] = values[key.default_from] if key.default_from else key.default
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

    def _value(self, box: str, field: str, where: str, form: _Form, value: object) -> Any:
        try:
            return form.read(value)
        except _Unreadable as error:
            code, message, remedy = error.problem
            self._note(box, field, code, f"{where}: {message}", remedy)
            return form.empty

    def _mapping(self, box: str, place: str, value: object) -> dict[object, object]:
        if isinstance(value, dict):
            return value
        self._note(box, "name", "wrong-type", f"{place}: {value!r} is a {type(value).__name__}.", "Write a mapping.")
        return {}

    def _note(self, box: str, field: str, code: str, message: str, remedy: str) -> None:
        self._mistakes[(box, field)] = Problem(code=code, box=box, message=message, remedy=remedy)

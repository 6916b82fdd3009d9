"""A deployment file as it was written: TOML, read into plain models.

    [nodes]
    east = {address = "10.0.0.1:7700"}
    west = {address = "10.1.0.1:7700"}

    [queries.slow_paths]
    file = "slow_paths.yaml"
    mode = "race"
    on = ["east", "west"]
    entry = {ping = ["east", "west"], load = ["east", "west"]}

Reading never stops at a mistake: what cannot be read is noted with its path, left out, and the rest is read again, so
that whoever checks the whole file sees all that can be seen. So no key is required here: ``validate`` asks for those
that must be there. What the names in the file refer to is not looked at, either.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from anabranch.deploy import mistakes
from anabranch.deploy.mistakes import Report
from anabranch.errors import ConfigError
from anabranch.model.links import parse_rate
from anabranch.model.times import parse_duration
from anabranch.query.problems import candidates

_KINDS: Final = {
    "bool_type": "Write true or false.",
    "dict_type": "Write a table: {key = value}.",
    "list_type": "Write tables in a list: [[links]].",
    "model_type": "Write a table: {key = value}.",
    "string_type": "Write text, in quotes.",
}


def _wrong(code: str, message: str, remedy: str) -> PydanticCustomError:
    """What pydantic is told of a value, with the words that are ours; braces would be taken for its own."""
    return PydanticCustomError("anabranch", "{message}", {"code": code, "message": message, "remedy": remedy})


def _kind(value: object) -> str:
    names = {bool: "a truth value", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def _names(value: object) -> tuple[str, ...]:
    """One name, or a list of them."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _wrong("wrong-type", f"{value!r} is not a list of names.", 'Write one name, or a list: ["a", "b"].')
    return tuple(found)


def _duration_us(value: object) -> int:
    try:
        return parse_duration(value if isinstance(value, str) else repr(value))
    except ConfigError as error:
        raise _wrong("bad-value", error.message, error.remedy) from None


def _rate_bytes(value: object) -> int:
    try:
        return parse_rate(value if isinstance(value, str) else repr(value))
    except ConfigError as error:
        raise _wrong("bad-value", f"{value!r} is not a rate.", error.remedy) from None


def _entry(value: object) -> object:
    return value if isinstance(value, dict) else {"nodes": value}


def _settings(value: object) -> object:
    """Settings of Spark as texts. A dot in a key makes tables of it in TOML, unless it is quoted: both are meant."""
    return dict(_flat("", value)) if isinstance(value, dict) else value


def _flat(prefix: str, table: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, str | int | float):
            yield prefix + key, str(value)
        else:
            message = f"{prefix}{key} is {_kind(value)}: {value!r}."
            raise _wrong("wrong-type", message, "Write text, a number, true or false.")


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
DurationUs = Annotated[int, BeforeValidator(_duration_us)]
RateBytes = Annotated[int, BeforeValidator(_rate_bytes)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SparkTable(_Table):
    """Which Spark a node uses, and settings of Spark's own."""

    master: str | None = None
    conf: Annotated[dict[str, str], BeforeValidator(_settings)] = Field(default_factory=dict)


class NodeTable(_Table):
    """One node: where it listens, where it stands, how its Spark is set, where its state lies."""

    address: str = ""
    site: str = ""
    state: str | None = None
    spark: SparkTable = SparkTable()


class EntryTable(_Table):
    """The entry points of a source, and where each of its producers, or its feed, is at home: the first of them,
    unless said."""

    nodes: Names = ()
    producers: dict[str, str] = Field(default_factory=dict)


class QueryTable(_Table):
    """One query: its file, its mode, and where each of its parts runs."""

    file: str = ""
    mode: str = ""
    on: Names = ()
    place: dict[str, Names] = Field(default_factory=dict)
    entry: dict[str, Annotated[EntryTable, BeforeValidator(_entry)]] = Field(default_factory=dict)
    write: dict[str, str] = Field(default_factory=dict)


class LinkTable(_Table):
    """How the way between two nodes, or between the nodes of two sites, is made to behave."""

    between: Names = ()
    delay_us: DurationUs | None = Field(default=None, alias="delay")
    jitter_us: DurationUs | None = Field(default=None, alias="jitter")
    rate_bytes_s: RateBytes | None = Field(default=None, alias="rate")


class Description(_Table):
    """A whole file."""

    faults: bool = False
    spark: SparkTable = SparkTable()
    nodes: dict[str, NodeTable] = Field(default_factory=dict)
    queries: dict[str, QueryTable] = Field(default_factory=dict)
    links: list[LinkTable] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Draft:
    """A file as far as it could be read, and what could not be."""

    description: Description
    report: Report


def parse(text: str, *, place: str) -> dict[str, Any]:
    """The tables in a TOML text; ``place`` is the file, or what to call it in an error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{place}: {error}.", remedy="Correct the TOML there.") from error


def load(path: Path) -> Draft:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.", remedy="Check the path.") from error
    return read(parse(text, place=str(path)))


def read(data: Mapping[str, Any]) -> Draft:
    """The description that tables are, with all that is wrong in their form."""
    report = Report()
    left = copy.deepcopy(dict(data))
    while True:  # ends: each round takes away at least one value that could not be read
        try:
            return Draft(Description.model_validate(left), report)
        except ValidationError as error:
            found = [(each, _reach(left, each["loc"])) for each in error.errors(include_url=False)]
            for each, place in found:  # after all places were found: what is taken away cannot be reached
                _note(each, place, report)


# --- what pydantic says, in our words ------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A value in what was written: the path that leads to it, what holds it, and itself."""

    path: mistakes.Path
    parent: Any
    value: Any


def _note(error: ErrorDetails, place: _Place, report: Report) -> None:
    path, parent, value = place
    key = path[-1]
    if error["type"] == "extra_forbidden":
        _note_unknown(path, parent, report)
    elif error["type"] == "anabranch":
        report.add(error["ctx"]["code"], path, error["ctx"]["message"], error["ctx"]["remedy"])
    else:
        report.add("wrong-type", path, f"{value!r} is {_kind(value)}.", _KINDS[error["type"]])
    report.tell(path)
    is_thing = isinstance(key, int) or (len(path) == 2 and path[0] in ("nodes", "queries"))
    if is_thing:
        parent[key] = {}  # it is there, and other parts of the file may name it
    else:
        parent.pop(key, None)


def _reach(data: Any, location: tuple[int | str, ...]) -> _Place:
    """How far the place of an error leads into what was written.

    One name in place of a list, and the like, are completed before they are read: an error then lies further inside.
    """
    path: list[int | str] = []
    parent: Any = None
    for key in location:
        leads_on = key in data if isinstance(data, dict) else isinstance(data, list) and isinstance(key, int)
        if not leads_on:
            break
        parent, data = data, data[key]
        path.append(key)
    return _Place(tuple(path), parent, data)


def _note_unknown(path: mistakes.Path, given: Mapping[str, object], report: Report) -> None:
    """A key that looks like one that is not given is taken for it: that one is not missing, too."""
    known = _keys_at(path[:-1])
    key = str(path[-1])
    where = mistakes.path_text(path[:-1]) or "the file"
    report.add("unknown-key", path, f"{where} has no key `{key}`.", candidates(key, known))
    report.tell(*((*path[:-1], meant) for meant in get_close_matches(key, set(known) - given.keys(), n=1)))


def _keys_at(path: mistakes.Path) -> list[str]:
    """The keys of the table at a path."""
    here: Any = Description
    for key in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = fields[str(key)]
        else:
            here = get_args(here)[-1]
        here = get_args(here)[0] if get_origin(here) is Annotated else here
    return [field.alias or name for name, field in here.model_fields.items()]

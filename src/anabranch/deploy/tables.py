"""Tables that a person wrote as TOML, read into plain models, with everything that is wrong in their form.

Reading never stops at a mistake: what cannot be read is noted with its path, left out, and the rest is read again, so
that whoever checks the whole file sees all that can be seen. What the values mean is not looked at here.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from anabranch.deploy import mistakes
from anabranch.deploy.mistakes import Report
from anabranch.errors import ConfigError
from anabranch.model.links import parse_rate
from anabranch.model.times import parse_duration
from anabranch.query.problems import candidates

_KINDS: Final = {
    "bool_type": "Write true or false.",
    "dict_type": "Write a table: {{key = value}}.",
    "list_type": "Write tables in a list: [[{key}]].",
    "model_type": "Write a table: {{key = value}}.",
    "string_type": "Write text, in quotes.",
}


def wrong(code: str, message: str, remedy: str) -> PydanticCustomError:
    """What pydantic is told of a value, with the words that are ours; braces would be taken for its own."""
    return PydanticCustomError("anabranch", "{message}", {"code": code, "message": message, "remedy": remedy})


def kind_of(value: object) -> str:
    names = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def _names(value: object) -> tuple[str, ...]:
    """One name, or a list of them."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise wrong("wrong-type", f"{value!r} is not a list of names.", 'Write one name, or a list: ["a", "b"].')
    return tuple(found)


def _duration_us(value: object) -> int:
    try:
        return parse_duration(value if isinstance(value, str) else repr(value))
    except ConfigError as error:
        raise wrong("bad-value", error.message, error.remedy) from None


def _rate_bytes(value: object) -> int:
    try:
        return parse_rate(value if isinstance(value, str) else repr(value))
    except ConfigError as error:
        raise wrong("bad-value", f"{value!r} is not a rate.", error.remedy) from None


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
DurationUs = Annotated[int, BeforeValidator(_duration_us)]
RateBytes = Annotated[int, BeforeValidator(_rate_bytes)]


class Table(BaseModel):
    """A table of a file: other keys than its own are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=Table)


def load_tables(path: Path) -> dict[str, Any]:
    """The tables in a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.", remedy="Check the path.") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.", remedy="Correct the TOML there.") from error


def read_tables(
    model: type[Model], data: Mapping[str, Any], *, is_thing: Callable[[mistakes.Path], bool] = lambda _: False
) -> tuple[Model, Report]:
    """The model that tables are, with all that is wrong in their form.

    ``is_thing`` says which places are things that others may name: one that cannot be read is there all the same. So
    are the elements of lists.
    """
    report = Report()
    left = copy.deepcopy(dict(data))
    while True:  # ends: each round takes away at least one value that could not be read
        try:
            return model.model_validate(left), report
        except ValidationError as error:
            found = [(each, _reach(left, each["loc"])) for each in error.errors(include_url=False)]
            for each, place in found:  # after all places were found: what is taken away cannot be reached
                _note(model, each, place, report)
                if isinstance(place.path[-1], int) or is_thing(place.path):
                    place.parent[place.path[-1]] = {}
                else:
                    place.parent.pop(place.path[-1], None)


# --- what pydantic says, in our words ------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A value in what was written: the path that leads to it, what holds it, and itself."""

    path: mistakes.Path
    parent: Any
    value: Any


def _note(model: type[Table], error: ErrorDetails, place: _Place, report: Report) -> None:
    path, parent, value = place
    if error["type"] == "extra_forbidden":
        _note_unknown(model, path, parent, report)
    elif error["type"] == "anabranch":
        report.add(error["ctx"]["code"], path, error["ctx"]["message"], error["ctx"]["remedy"])
    else:
        remedy = _KINDS[error["type"]].format(key=path[-1])
        report.add("wrong-type", path, f"{value!r} is {kind_of(value)}.", remedy)
    report.tell(path)


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


def _note_unknown(model: type[Table], path: mistakes.Path, given: Mapping[str, object], report: Report) -> None:
    """A key that looks like one that is not given is taken for it: that one is not missing, too."""
    known = _keys_at(model, path[:-1])
    key = str(path[-1])
    where = mistakes.path_text(path[:-1]) or "the file"
    report.add("unknown-key", path, f"{where} has no key `{key}`.", candidates(key, known))
    report.tell(*((*path[:-1], meant) for meant in get_close_matches(key, set(known) - given.keys(), n=1)))


def _keys_at(model: type[Table], path: mistakes.Path) -> list[str]:
    """The keys of the table at a path."""
    here: Any = model
    for key in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = fields[str(key)]
        else:
            here = get_args(here)[-1]
        here = get_args(here)[0] if get_origin(here) is Annotated else here
    return [field.alias or name for name, field in here.model_fields.items()]

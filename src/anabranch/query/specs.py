"""Feeds and writers as text: ``file:pings.csv,speed=10`` on a command line, a mapping in YAML.

    KIND:FIRST,OPTION=VALUE,OPTION=VALUE

FIRST stands for the option that every such connector has (the path of a file, the format of Spark). A piece without
``=`` belongs to the value before it, comma included, so a list of hosts or columns needs no quotes; text in double
quotes and brackets is never cut. In YAML the same is ``{KIND: {OPTION: VALUE}}``, or the one-line text.

One table says what each kind has; reading and writing both follow it, so what is written reads back as the same value.
Every error is a ConfigError that names the option and what would be right; the caller knows which source it was.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Final, Literal

from anabranch.errors import ConfigError
from anabranch.model.times import format_duration, from_datetime, parse_duration, to_datetime
from anabranch.query.connectors import (
    NEXMARK,
    NEXMARK_START_US,
    ConsoleWriter,
    Feed,
    FileFeed,
    GeneratorFeed,
    JsonLinesWriter,
    NexmarkFeed,
    Options,
    ParquetWriter,
    SparkFeed,
    SparkWriter,
    TableWriter,
    Values,
    Writer,
    is_database,
)
from anabranch.query.problems import candidates

PUSH: Final = "push"
"""The feed of a source that clients push to: none."""
FLIGHT: Final = "flight"
"""The writer of an output that is only read over Flight: none."""
MAX: Final = "max"

ARGUMENTS: Final[Mapping[str, tuple[int, int]]] = {
    "choice": (1, 10_000),
    "normal": (2, 2),
    "sequence": (0, 2),
    "uniform": (2, 2),
}
"""The ways to make values, and how many arguments each takes."""

_REQUIRED: Final = object()


def _same(value: Any) -> object:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """One option: its name, the attribute it is, how it is read and written, what it is when left out."""

    name: str
    read: Callable[[object], Any]
    write: Callable[[Any], object] = _same
    attribute: str = ""
    default: object = _REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """``first`` is what the text before any option stands for; ``rest`` takes the options that the table lacks."""

    makes: Callable[..., Any]
    options: tuple[_Option, ...]
    first: str = ""
    rest: str = ""


# --- values --------------------------------------------------------------------------------------------------------


def _wrong(value: object, what: str, remedy: str) -> ConfigError:
    return ConfigError(f"{value!r} is not {what}.", remedy=remedy)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(value, "a text", "Write text.")
    return value


def _number(value: object) -> float | None:
    """A positive number, or None for ``max``."""
    if isinstance(value, str) and value.strip() == MAX:
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise _wrong(value, "a number above 0", f"Write a number, or {MAX} for as fast as possible.")
    return number


def _written_number(number: float | None) -> object:
    if number is None:
        return MAX
    return int(number) if number == int(number) else number


def _whole(lowest: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else lowest - 1
        except ValueError:
            number = lowest - 1
        if not lowest <= number < 1 << 63:
            raise _wrong(value, f"a whole number of at least {lowest}", f"Write {lowest} or more.")
        return number

    return read


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            raise _wrong(value, "possible here", candidates(str(value), choices))
        return str(value)

    return read


def _duration(value: object) -> int:
    us = parse_duration(value if isinstance(value, str) else repr(value))
    if us == 0:
        raise _wrong(value, "a duration above 0", "Write a number and a unit: 500ms, 10s, 5m.")
    return us


def _moment(value: object) -> int:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _wrong(value, "a time", "Write it as 2026-01-31T12:00:00Z.") from None
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, date):
        return from_datetime(datetime.combine(value, time(), tzinfo=UTC))
    raise _wrong(value, "a time", "Write it as 2026-01-31T12:00:00Z.")


def _written_moment(us: int) -> str:
    return to_datetime(us).isoformat().replace("+00:00", "Z")


def _plain(value: object) -> str:
    """A value of a foreign option, as the text that Spark wants."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _wrong(value, "a text", "Write text.")


def _options(value: object) -> Options:
    if not isinstance(value, Mapping):
        raise _wrong(value, "a mapping", "Write names and values.")
    return tuple(sorted((str(name), _plain(each)) for name, each in value.items()))


def _columns(value: object) -> tuple[tuple[str, Values], ...]:
    if not isinstance(value, Mapping):
        raise _wrong(value, "a mapping", "Write a mapping from columns to how their values are made.")
    return tuple(sorted((str(name), values_from(each)) for name, each in value.items()))


def _names(value: object) -> tuple[str, ...]:
    """Names between commas, or a list of them."""
    many = value.split(",") if isinstance(value, str) else value
    if not isinstance(many, list | tuple) or not many:
        raise _wrong(value, "a list of columns", "Write names separated by commas.")
    return tuple(_text(each).strip() for each in many)


def _database(value: object) -> str:
    text = _text(value).strip()
    if not is_database(text):
        raise _wrong(value, "a database", "Write sqlite:PATH, duckdb:PATH or postgresql://HOST/DATABASE.")
    return text


def values_from(value: object) -> Values:
    """``uniform(1, 6)`` and the like."""
    remedy = 'Write choice(a,b), uniform(low,high), normal(mean,deviation) or sequence(first,step); quote "a,b".'
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", value, re.DOTALL) if isinstance(value, str) else None
    if match is None or match[1] not in ARGUMENTS:
        raise _wrong(value, "a way to make values", remedy)
    try:
        rows = list(csv.reader([match[2]], skipinitialspace=True)) if match[2] else []
    except csv.Error:
        raise _wrong(value, "a way to make values", remedy) from None
    arguments = tuple(rows[0]) if rows else ()
    fewest, most = ARGUMENTS[match[1]]
    if not fewest <= len(arguments) <= most:
        raise ConfigError(f"{match[1]} takes {fewest} to {most} values, not {len(arguments)}.", remedy=remedy)
    if match[1] != "choice":
        for argument in arguments:
            _finite(argument)
        if match[1] == "uniform" and float(arguments[0]) > float(arguments[1]):
            raise ConfigError(f"{value}: the lowest value is above the highest.", remedy="Exchange them.")
    return Values(match[1], arguments)


def values_to_text(values: Values) -> str:
    if not values.arguments:
        return values.kind
    line = io.StringIO()
    plain = all(re.fullmatch(r"[\w.+\-]+( [\w.+\-]+)*", argument) for argument in values.arguments)
    quoting: Literal[0, 1] = csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL
    csv.writer(line, lineterminator="", quoting=quoting).writerow(values.arguments)
    return f"{values.kind}({line.getvalue()})"


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _wrong(text, "a number", "Write a number.")
    return number


# --- the table -----------------------------------------------------------------------------------------------------

_THEN: Final = _Option(name="then", read=_one_of("close", "wait"), default="close")
_PRODUCER: Final = _Option(name="producer", read=_text, default=None)
_PATH: Final = _Option(name="path", read=_text)
_FORMAT: Final = _Option(name="format", read=_text)
_SPARK_OPTIONS: Final = _Option(name="options", read=_options, write=dict, default=())


def _every(default: object) -> _Option:
    return _Option(name="every", attribute="every_us", read=_duration, write=format_duration, default=default)


def _written_columns(columns: tuple[tuple[str, Values], ...]) -> dict[str, str]:
    return {name: values_to_text(values) for name, values in columns}


_FEEDS: Final[Mapping[str, _Kind]] = {
    "generator": _Kind(
        makes=GeneratorFeed,
        rest="columns",
        options=(
            _Option(name="rate", read=_number, write=_written_number, default=100.0),
            _Option(name="seed", read=_whole(0), default=0),
            _Option(name="rows", read=_whole(1), default=None),
            _Option(name="start", attribute="start_us", read=_moment, write=_written_moment, default=None),
            _every(None),
            _THEN,
            _PRODUCER,
            _Option(name="columns", read=_columns, write=_written_columns, default=()),
        ),
    ),
    "file": _Kind(
        makes=FileFeed,
        first="path",
        options=(
            _PATH,
            _Option(name="format", read=_one_of("csv", "jsonl", "parquet"), default=None),
            _Option(name="speed", read=_number, write=_written_number, default=None),
            _THEN,
            _PRODUCER,
        ),
    ),
    "nexmark": _Kind(
        makes=NexmarkFeed,
        first="stream",
        options=(
            _Option(name="stream", read=_one_of(*NEXMARK)),
            _Option(name="events", read=_whole(1), default=None),
            _Option(name="rate", read=_number, write=_written_number, default=None),
            _Option(name="seed", read=_whole(0), default=0),
            _Option(name="start", attribute="start_us", read=_moment, write=_written_moment, default=NEXMARK_START_US),
            _every(100),
            _THEN,
            _PRODUCER,
        ),
    ),
    "spark": _Kind(
        makes=SparkFeed,
        first="format",
        rest="options",
        options=(
            _FORMAT,
            _Option(name="schema", read=_text, default=None),
            _Option(name="columns", read=_text, default=None),
            _Option(name="lane", read=_text, default=None),
            _Option(name="number", read=_text, default=None),
            _PRODUCER,
            _SPARK_OPTIONS,
        ),
    ),
}

_WRITERS: Final[Mapping[str, _Kind]] = {
    "jsonl": _Kind(makes=JsonLinesWriter, first="path", options=(_PATH,)),
    "parquet": _Kind(
        makes=ParquetWriter,
        first="path",
        options=(_PATH, _Option(name="rows", read=_whole(1), default=1_000_000), _every(10_000_000)),
    ),
    "console": _Kind(
        makes=ConsoleWriter,
        first="form",
        options=(_Option(name="form", read=_one_of("json", "table"), default="json"),),
    ),
    "spark": _Kind(
        makes=SparkWriter,
        first="format",
        rest="options",
        options=(
            _FORMAT,
            _Option(name="guarantee", read=_one_of("exactly-once", "at-least-once"), default="exactly-once"),
            _Option(name="rows", read=_whole(1), default=100_000),
            _every(1_000_000),
            _SPARK_OPTIONS,
        ),
    ),
    "table": _Kind(
        makes=TableWriter,
        first="database",
        options=(
            _Option(name="database", read=_database),
            _Option(name="table", read=_text),
            _Option(name="key", read=_names, write=list, default=()),
            _Option(name="rows", read=_whole(1), default=10_000),
            _every(200_000),
        ),
    ),
}


# --- reading and writing -------------------------------------------------------------------------------------------


def feed_from(value: object) -> Feed | None:
    """A feed from its text or mapping; None for ``push``."""
    found: Feed | None = _read(value, _FEEDS, PUSH)
    return found


def writer_from(value: object) -> Writer | None:
    """A writer from its text or mapping; None for ``flight``."""
    found: Writer | None = _read(value, _WRITERS, FLIGHT)
    return found


def feed_to_plain(feed: Feed) -> dict[str, object]:
    return _write(feed, _FEEDS)


def writer_to_plain(writer: Writer) -> dict[str, object]:
    return _write(writer, _WRITERS)


def kind_name(connector: Feed | Writer) -> str:
    """What a connector is called in its text form."""
    return next(name for name, kind in (*_FEEDS.items(), *_WRITERS.items()) if kind.makes is type(connector))


def option_names(connector: Feed | Writer) -> list[str]:
    """The options that connectors of this kind have."""
    kind = next(kind for kind in (*_FEEDS.values(), *_WRITERS.values()) if kind.makes is type(connector))
    return [option.name for option in kind.options]


def _read(value: object, kinds: Mapping[str, _Kind], nothing: str) -> Any:
    name, given = _from_text(value, kinds) if isinstance(value, str) else _from_mapping(value)
    if name == nothing and not given:
        return None
    if name not in kinds:
        raise ConfigError(f"There is no feed or writer {name!r} here.", remedy=candidates(name, (*kinds, nothing)))
    kind = kinds[name]
    if kind.rest:
        given = _gathered(kind, given)
    return kind.makes(**_attributes(name, kind, given))


def _attributes(name: str, kind: _Kind, given: Mapping[str, object]) -> dict[str, Any]:
    known = [option.name for option in kind.options]
    for key in given:
        if key not in known:
            raise ConfigError(f"{name} has no option {key!r}.", remedy=candidates(key, known))
    values: dict[str, Any] = {}
    for option in kind.options:
        attribute = option.attribute or option.name
        if option.name in given:
            values[attribute] = _value(name, option, given[option.name])
        elif option.default is _REQUIRED:
            raise ConfigError(f"{name} needs {option.name!r}.", remedy=f"Write {name}:{option.name.upper()}.")
        else:
            values[attribute] = option.default
    return values


def _value(name: str, option: _Option, value: object) -> Any:
    try:
        return option.read(value)
    except ConfigError as error:
        raise ConfigError(f"{name}, option {option.name!r}: {error.message}", remedy=error.remedy) from error


def _gathered(kind: _Kind, given: Mapping[str, object]) -> dict[str, object]:
    """Options that the table lacks, put with the others of their sort."""
    known = {option.name for option in kind.options}
    rest = {key: value for key, value in given.items() if key not in known}
    gathered = {key: value for key, value in given.items() if key in known}
    if rest:
        more = gathered.get(kind.rest, {})
        if not isinstance(more, Mapping):
            unknown = next(iter(rest))
            raise ConfigError(f"There is no option {unknown!r}.", remedy=candidates(unknown, sorted(known)))
        gathered[kind.rest] = {**more, **rest}
    return gathered


def _from_mapping(value: object) -> tuple[str, Mapping[str, object]]:
    remedy = "Write {KIND: {OPTION: VALUE}} or KIND:OPTION=VALUE,..."
    if not isinstance(value, Mapping) or len(value) != 1:
        raise _wrong(value, "one connector", remedy)
    name, given = next(iter(value.items()))
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise _wrong(given, "a mapping of options", remedy)
    return str(name), {str(key): each for key, each in given.items()}


def _from_text(text: str, kinds: Mapping[str, _Kind]) -> tuple[str, Mapping[str, object]]:
    name, _, rest = text.strip().partition(":")
    if name not in kinds:
        return name, {"": rest} if rest else {}
    first = kinds[name].first
    given: dict[str, str] = {}
    last = ""
    for piece in _pieces(rest):
        match = re.fullmatch(r"\s*([A-Za-z_][\w.\-]*)=(.*)", piece, re.DOTALL)
        if match is not None:
            last = match[1]
            if last in given:
                raise ConfigError(f"{name}: option {last!r} appears twice.", remedy="Give it once.")
            given[last] = match[2]
        elif last:
            given[last] += f",{piece}"
        elif piece.strip():
            if not first:
                raise ConfigError(f"{name}: {piece!r} is not an option.", remedy="Write OPTION=VALUE.")
            last = first
            given[last] = piece
    return name, {key: _unquoted(value) for key, value in given.items()}


def _pieces(text: str) -> list[str]:
    """The text cut at commas outside of quotes and brackets."""
    pieces = [""]
    depth = 0
    quoted = False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "([{<") - (character in ")]}>" and depth > 0)
        if character == "," and depth == 0 and not quoted:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1] else value


def _write(connector: Feed | Writer, kinds: Mapping[str, _Kind]) -> dict[str, object]:
    name = next(name for name, kind in kinds.items() if kind.makes is type(connector))
    written: dict[str, object] = {}
    for option in kinds[name].options:
        value = getattr(connector, option.attribute or option.name)
        if value != option.default:
            written[option.name] = option.write(value)
    return {name: written}

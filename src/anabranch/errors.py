"""Every error Anabranch raises, in one tree, sorted by who must act.

    AnabranchError
    ├── UserError                what you wrote or sent must change
    │   ├── QueryError             a diagram is invalid (carries every problem found)
    │   ├── DeploymentError        a deployment file is wrong (carries every mistake found)
    │   ├── ConfigError            a setting, option or argument is wrong
    │   ├── PushRefused            rows were refused; nothing of that batch was kept
    │   ├── SessionExpired         another producer with the same name took over
    │   └── StreamNotFound         no stream of that name, or no longer that position
    ├── OperatorError            whoever runs the node must act
    │   ├── StateError             the state directory cannot be used as it is
    │   ├── DiskFull               intake has stopped until there is room
    │   ├── Overloaded             a bounded log or queue is full: try again later
    │   ├── NodeUnreachable        no node answers at that address
    │   ├── NotLeading             another entry point takes the rows of that lane
    │   └── EngineError            Spark refused or failed
    └── InvariantBroken          a bug in Anabranch: stop rather than go on wrongly

An error says what happened, to what, and what to do. ``code`` is stable: scripts and documentation use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class AnabranchError(Exception):
    """The root: a code, one sentence of what happened, one line of remedy."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UserError(AnabranchError):
    """What the user wrote or sent must change."""

    code = "user"
    exit_code = 2


def with_article(type_: str | None) -> str:
    """``an int``, ``a string``: how messages name the type of a value."""
    return f"{'an' if (type_ or '')[:1] in tuple('aeio') else 'a'} {type_}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a query: where, what, and what would be right.

    ``place`` is the line and column of the SQL text that the box was written in, if it was.
    """

    code: str
    box: str
    message: str
    remedy: str = ""
    place: str = ""

    def __str__(self) -> str:
        where = "".join(f"{each}: " for each in (self.place, self.box) if each)
        return f"{where}{self.message} {self.remedy}".strip() + f" [{self.code}]"


class QueryError(UserError):
    """A diagram that cannot run. ``problems`` holds all that was found, not only the first."""

    code = "query"

    def __init__(self, query: str, problems: Sequence[Problem]) -> None:
        self.query = query
        self.problems = tuple(problems)
        super().__init__(_listed(f"Query {query!r}", "problem", self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong with a deployment file: the path of the field, what, and what would be right."""

    code: str
    path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message} {self.remedy}".strip() + f" [{self.code}]"


class DeploymentError(UserError):
    """A deployment that cannot run. ``mistakes`` holds all that was found, not only the first."""

    code = "deployment"

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        self.file = file
        self.mistakes = tuple(mistakes)
        super().__init__(_listed(file, "mistake", self.mistakes))


def _listed(subject: str, noun: str, found: Sequence[object]) -> str:
    """All of them, one below the other."""
    count = f"{len(found)} {noun}" + ("s" if len(found) != 1 else "")
    return f"{subject} has {count}:" + "".join(f"\n  - {each}" for each in found)


class ConfigError(UserError):
    """A setting, option or argument is wrong."""

    code = "config"


class PushRefused(UserError):
    """``row`` is the index, in the batch, of the first bad row; nothing of the batch was kept."""

    code = "push-refused"

    def __init__(self, message: str, *, row: int | None = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.row = row


class SessionExpired(UserError):
    """Another producer with the same name has taken over; this one must stop."""

    code = "session-expired"


class StreamNotFound(UserError):
    """There is no stream of that name here, or it no longer holds that position."""

    code = "stream-not-found"


class OperatorError(AnabranchError):
    """Whoever runs the node must act."""

    code = "operator"
    exit_code = 3


class StateError(OperatorError):
    """The state directory cannot be used as it is; nothing in it was changed."""

    code = "state"


class DiskFull(OperatorError):
    """There is no room to keep more rows: intake has stopped, nothing was lost."""

    code = "disk-full"


class Overloaded(OperatorError):
    """A bounded log or queue is full; trying again later may succeed."""

    code = "overloaded"


class NodeUnreachable(OperatorError):
    """No node answers at the address."""

    code = "node-unreachable"


class NotLeading(OperatorError):
    """This entry point does not lead the lane, and kept nothing; another one may."""

    code = "not-leading"


class EngineError(OperatorError):
    """Spark refused the query or failed to run it."""

    code = "engine"


class InvariantBroken(AnabranchError):
    """A bug in Anabranch: it stops rather than go on wrongly."""

    code = "invariant"
    exit_code = 70  # EX_SOFTWARE of sysexits.h


def check(condition: bool, message: str) -> None:
    """An invariant that stays on in production: unlike ``assert``, no flag removes it."""
    if not condition:
        raise InvariantBroken(message, remedy="This is a bug in Anabranch; please report it with the node's log.")

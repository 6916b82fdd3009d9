"""How errors cross the wire and keep their class.

An error travels twice in a Flight error: as a sentence any client can show, and as JSON in ``extra_info`` from which
our client raises the same class again. gRPC allows about 8 KB of such trailers, so long texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow.flight as flight

from anabranch.errors import (
    AnabranchError,
    ConfigError,
    InvariantBroken,
    NodeUnreachable,
    OperatorError,
    Problem,
    PushRefused,
    QueryError,
)
from anabranch.transport import messages

SENTENCE_BYTES: Final = 500  # gRPC percent-encodes it: up to three times as long in the trailer
TEXT_BYTES: Final = 2_000  # base64 makes four of three; two such texts and the sentence stay below 8 KB


def _classes(root: type[AnabranchError]) -> Iterator[type[AnabranchError]]:
    yield root
    for cls in root.__subclasses__():
        yield from _classes(cls)


_BY_CODE: Final = {cls.code: cls for cls in _classes(AnabranchError)}


def _cut(value: str, size: int) -> str:
    data = value.encode()
    return value if len(data) <= size else data[: size - 3].decode(errors="ignore") + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as it travels."""

    code: str
    message: str
    remedy: str
    row: int | None = None
    """Which row was refused, if one was."""
    query: str = ""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the query, if that is it."""


def to_flight(error: AnabranchError) -> flight.FlightError:
    """The Flight error that carries this one."""
    wrong = error if isinstance(error, QueryError) else None
    failure = Failure(
        code=error.code,
        message="" if wrong else _cut(error.message, TEXT_BYTES),
        remedy=_cut(error.remedy, TEXT_BYTES // 2),
        row=error.row if isinstance(error, PushRefused) else None,
        query=wrong.query if wrong else "",
        problems=_fitting(wrong.problems) if wrong else (),
    )
    cls = flight.FlightUnavailableError if isinstance(error, NodeUnreachable) else flight.FlightServerError
    return cls(_cut(str(error), SENTENCE_BYTES), extra_info=messages.encode(failure))


def _fitting(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """As many problems as a trailer holds."""
    sizes = accumulate(
        len(f"{problem.code}{problem.box}{problem.message}{problem.remedy}".encode()) for problem in problems
    )
    return tuple(problem for problem, size in zip(problems, sizes, strict=True) if size <= TEXT_BYTES)


def is_connection_lost(error: Exception) -> bool:
    """Whether gRPC says it, not the node."""
    return isinstance(error, flight.FlightUnavailableError) and not error.extra_info


def from_flight(error: Exception, address: str) -> AnabranchError:
    """The error that a failed Flight call means to its caller."""
    extra = getattr(error, "extra_info", None)
    if extra:
        try:
            return _error(messages.decode(extra, Failure))
        except ConfigError as refused:  # it does not even complain in our version
            return ConfigError(f"The node at {address}: {refused.message}", remedy=refused.remedy)
    reason = str(error).partition(" gRPC client debug context")[0].strip().rstrip(".")
    if isinstance(error, flight.FlightTimedOutError):
        return unreachable(address, "it did not answer in time")
    if isinstance(error, flight.FlightUnavailableError | flight.FlightCancelledError | flight.FlightInternalError):
        return unreachable(address, _plain(_cut(reason, SENTENCE_BYTES)))
    return OperatorError(
        f"The call to {address} failed: {_cut(reason, TEXT_BYTES)}.",
        remedy="Check that this is the address of an Anabranch node of the same version.",
    )


_PLAIN: Final = {
    "Connection refused": "nothing listens there",
    "Domain name not found": "unknown host",
    "Network is unreachable": "the network is unreachable",
    "No route to host": "no route to host",
    "Failed parsing HTTP/2": "what listens there is not an Anabranch node",
    "Connection reset by peer": "it reset the connection",
}


def _plain(reason: str) -> str:
    """gRPC's common reasons in plain words; any other without Flight's introduction."""
    for mark, words in _PLAIN.items():
        if mark in reason:
            return words
    return reason.partition(", with message: ")[2] or reason


def unreachable(address: str, reason: str) -> NodeUnreachable:
    return NodeUnreachable(
        f"No node answers at {address}: {reason}.", remedy="Check the address and that the node is running."
    )


def cannot_listen(host: str, port: int, reason: str) -> ConfigError:
    return ConfigError(
        f"The node cannot listen on {host}:{port}: {reason}.",
        remedy="Another process may be using this port, perhaps the same node: stop it, or choose another port.",
    )


def _error(failure: Failure) -> AnabranchError:
    cls = _BY_CODE.get(failure.code, AnabranchError)
    if issubclass(cls, PushRefused):
        return cls(failure.message, row=failure.row, remedy=failure.remedy)
    if issubclass(cls, QueryError):
        return cls(failure.query, failure.problems)
    return cls(failure.message, remedy=failure.remedy)


def internal(error: Exception) -> InvariantBroken:
    """What a client is told when a handler failed in a way it should not: the node's log has the rest."""
    return InvariantBroken(
        f"Internal error in the node: {type(error).__name__}: {error}.",
        remedy="This is a bug in Anabranch; please report it with the node's log.",
    )

"""How errors cross the wire and keep their class.

An error travels twice in a Flight error: as a sentence any client can show, and as JSON in ``extra_info`` from which
our client raises the same class again. gRPC allows about 8 KB of such trailers, so long texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, cast

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
from anabranch.transport import wire

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


def to_flight(error: AnabranchError) -> flight.FlightError:
    """The Flight error that carries this one."""
    detail: wire.Message = {
        "code": error.code,
        "message": _cut(error.message, TEXT_BYTES),
        "remedy": _cut(error.remedy, TEXT_BYTES // 2),
    }
    if isinstance(error, PushRefused):
        detail["row"] = error.row
    if isinstance(error, QueryError):
        detail |= {"query": error.query, "message": "", "problems": _fitting(error.problems)}
    cls = flight.FlightUnavailableError if isinstance(error, NodeUnreachable) else flight.FlightServerError
    return cls(_cut(str(error), SENTENCE_BYTES), extra_info=wire.encode(detail))


def _fitting(problems: Sequence[Problem]) -> list[list[str]]:
    """As many problems as a trailer holds."""
    texts = [[problem.code, problem.box, problem.message, problem.remedy] for problem in problems]
    sizes = accumulate(len("".join(parts).encode()) for parts in texts)
    return [parts for parts, size in zip(texts, sizes, strict=True) if size <= TEXT_BYTES]


def from_flight(error: Exception, address: str) -> AnabranchError:
    """The error that a failed Flight call means to its caller."""
    extra = getattr(error, "extra_info", None)
    if extra:
        try:
            return _from_detail(wire.decode(extra))
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


def _from_detail(detail: wire.Message) -> AnabranchError:
    cls = _BY_CODE.get(wire.text(detail, "code"), AnabranchError)
    message, remedy = wire.text(detail, "message"), wire.text(detail, "remedy")
    if issubclass(cls, PushRefused):
        return cls(message, row=wire.optional_number(detail, "row"), remedy=remedy)
    if issubclass(cls, QueryError):
        parts = cast(list[list[str]], detail.get("problems", []))
        problems = [Problem(code=code, box=box, message=what, remedy=fix) for code, box, what, fix in parts]
        return cls(wire.text(detail, "query"), problems)
    return cls(message, remedy=remedy)


def internal(error: Exception) -> InvariantBroken:
    """What a client is told when a handler failed in a way it should not: the node's log has the rest."""
    return InvariantBroken(
        f"Internal error in the node: {type(error).__name__}: {error}.",
        remedy="This is a bug in Anabranch; please report it with the node's log.",
    )

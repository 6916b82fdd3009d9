"""What entry points that share lanes say to each other, and how it crosses the wire.

A *letter* goes from one entry-point node to another: messages of ``core.shared_lane`` about any number of lanes, and in
return the answers to them. All letters to a node go on one call, which stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from anabranch.core import shared_lane as lanes
from anabranch.core.roll_call import Roll
from anabranch.errors import ConfigError
from anabranch.transport import messages
from anabranch.transport.calls import Greeting

LETTERS: Final = b"lanes"
"""The descriptor by which a server knows letters from pushes."""

Message = lanes.Message[bytes]


@dataclass(frozen=True, slots=True)
class AboutLane:
    """A message, and the lane that it is about."""

    source: str
    lane: str
    message: Message


class LanePorts(Protocol):
    """What a node offers to the other entry points of its sources. Several threads call it at once."""

    def hear(self, sender: str, letter: Sequence[AboutLane]) -> list[AboutLane]:
        """Returns when all that the answers say is durable."""
        ...

    def greet(self, greeting: Greeting) -> Roll:
        """All that is known of the source's entry points, after this."""
        ...


_KINDS: Final[Mapping[str, Any]] = {
    "store-asked": lanes.StoreAsked[bytes],
    "store-answered": lanes.StoreAnswered,
    "vote-asked": lanes.VoteAsked,
    "vote-answered": lanes.VoteAnswered,
    "teach-asked": lanes.TeachAsked,
}
_NAMES: Final[Mapping[type, str]] = {getattr(kind, "__origin__", kind): name for name, kind in _KINDS.items()}
_DECODERS: Final = {name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()


class _Said(msgspec.Struct, array_like=True):
    """A message: which it is, about which lane, and its fields."""

    kind: str
    source: str
    lane: str
    fields: msgspec.Raw


class _Letter(msgspec.Struct, array_like=True):
    sender: str
    said: list[_Said]


def letter(sender: str, said: Sequence[AboutLane]) -> bytes:
    return messages.pack(_Letter(sender, _all_said(said)))


def letter_of(data: bytes) -> tuple[str, list[AboutLane]]:
    """Who wrote it, and what it says; ``ConfigError`` if it is none."""
    found = messages.unpack(data, _Letter)
    return found.sender, _about(found.said)


def answers(said: Sequence[AboutLane]) -> bytes:
    return messages.pack(_all_said(said))


def answers_of(data: bytes) -> list[AboutLane]:
    return _about(messages.unpack(data, list[_Said]))


def _all_said(said: Sequence[AboutLane]) -> list[_Said]:
    return [
        _Said(_NAMES[type(each.message)], each.source, each.lane, msgspec.Raw(_ENCODER.encode(each.message)))
        for each in said
    ]


def _about(said: Sequence[_Said]) -> list[AboutLane]:
    return [AboutLane(each.source, each.lane, _message(each)) for each in said]


def _message(said: _Said) -> Message:
    decoder = _DECODERS.get(said.kind)
    if decoder is None:
        raise ConfigError(
            f"An entry point sent {said.kind!r}, which is not valid.", remedy="Run the same version on all nodes."
        )
    try:
        message: Message = decoder.decode(said.fields)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"An entry point sent {said.kind}, which is not valid: {error}.",
            remedy="Run the same version on all nodes.",
        ) from error
    return message

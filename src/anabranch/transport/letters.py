"""What entry points that share lanes say to each other, and how it crosses the wire.

A *letter* goes from one entry-point node to another: messages of ``core.shared_lane`` about any number of lanes, and in
return the answers to them. All letters to a node go on one call, which stays open. What the messages say is JSON; the
entries of the lanes, which hold rows, follow as bytes, in the form in which both sides store them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from anabranch.core import shared_lane as lanes
from anabranch.core.roll_call import Met, Roll
from anabranch.errors import ConfigError
from anabranch.transport import wire

LETTERS: Final = b"lanes"
"""The descriptor by which a server knows letters from pushes."""

_SIZE: Final = struct.Struct("<I")

Message = lanes.Message[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutLane:
    """A message, and the lane that it is about."""

    source: str
    lane: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """An entry point that has not begun says which life it would begin. ``form`` tells queries that differ apart."""

    source: str
    form: str
    name: str
    met: Met


class LanePorts(Protocol):
    """What a node offers to the other entry points of its sources. Several threads call it at once."""

    def hear(self, sender: str, letter: Sequence[AboutLane]) -> list[AboutLane]:
        """Returns when all that the answers say is durable."""
        ...

    def greet(self, greeting: Greeting) -> Roll:
        """All that is known of the source's entry points, after this."""
        ...


# --- letters -------------------------------------------------------------------------------------------------------


def letter(sender: str, messages: Sequence[AboutLane]) -> bytes:
    """How long what is said is, what is said, and the entries of all messages, in order."""
    bodies = [body for each in messages for body in _bodies(each.message)]
    said = wire.encode(
        {"sender": sender, "messages": [_plain(each) for each in messages], "sizes": [len(body) for body in bodies]}
    )
    return b"".join((_SIZE.pack(len(said)), said, *bodies))


def letter_of(data: bytes) -> tuple[str, list[AboutLane]]:
    message, bodies = _opened(data)
    found = iter(bodies)
    return wire.text(message, "sender"), [_about(plain, found) for plain in _list(message, "messages")]


def _opened(data: bytes) -> tuple[wire.Message, list[bytes]]:
    if len(data) < _SIZE.size:
        raise ConfigError("A letter is cut off.", remedy="Run the same version on all nodes.")
    (size,) = _SIZE.unpack_from(data)
    at = _SIZE.size + size
    message = wire.decode(data[_SIZE.size : at])
    bodies: list[bytes] = []
    for each in _numbers(message, "sizes"):
        bodies.append(data[at : at + max(each, 0)])
        at += len(bodies[-1])
    if at != len(data) or [len(body) for body in bodies] != message["sizes"]:
        raise ConfigError(
            f"A letter of {len(data):,} bytes does not hold what it says.", remedy="Run the same version on all nodes."
        )
    return message, bodies


def answers_message(messages: Sequence[AboutLane]) -> wire.Message:
    return {"messages": [_plain(each) for each in messages]}


def answers_of(message: wire.Message) -> list[AboutLane]:
    return [_about(plain, iter(())) for plain in _list(message, "messages")]


def _bodies(message: Message) -> list[bytes]:
    if not isinstance(message, lanes.StoreAsked):
        return []
    base = [] if message.base is None else [message.base]
    return [*base, *message.entries]


def _plain(about: AboutLane) -> wire.Message:
    said = about.message
    plain: wire.Message = {
        "source": about.source,
        "lane": about.lane,
        "says": _NAMES[type(said)],
        "sender": said.sender,
        "term": said.term,
        "lives": dict(said.lives),
    }
    match said:
        case lanes.VoteAsked():
            return plain | {"last": list(said.last), "trial": said.trial, "takes_over": said.takes_over}
        case lanes.VoteAnswered():
            return plain | {"agreed": said.agreed, "tried": said.tried}
        case lanes.StoreAnswered():
            facts = {"agreed": said.agreed, "stored": said.stored, "released": said.released, "learns": said.learns}
            return plain | facts
        case lanes.TeachAsked():
            return plain
        case lanes.StoreAsked():
            return plain | {
                "after": said.after,
                "began_with": said.began_with,
                "entries": len(said.entries),
                "released": said.released,
                "counts": said.counts,
                "everywhere": said.everywhere,
                "base": said.base is not None,
            }


_NAMES: Final[Mapping[type, str]] = {
    lanes.VoteAsked: "vote-asked",
    lanes.VoteAnswered: "vote-answered",
    lanes.StoreAsked: "store-asked",
    lanes.StoreAnswered: "store-answered",
    lanes.TeachAsked: "teach-asked",
}


def _about(plain: wire.Message, bodies: Iterator[bytes]) -> AboutLane:
    return AboutLane(source=wire.text(plain, "source"), lane=wire.text(plain, "lane"), message=_message(plain, bodies))


def _message(plain: wire.Message, bodies: Iterator[bytes]) -> Message:
    sender, term, lives = wire.text(plain, "sender"), wire.number(plain, "term"), wire.times(plain, "lives")
    match wire.text(plain, "says"):
        case "vote-asked":
            last_term, last_place = _numbers(plain, "last")
            return lanes.VoteAsked(
                sender=sender,
                term=term,
                last=(last_term, last_place),
                trial=plain.get("trial") is True,
                takes_over=plain.get("takes_over") is True,
                lives=lives,
            )
        case "vote-answered":
            return lanes.VoteAnswered(
                sender=sender,
                term=term,
                agreed=plain.get("agreed") is True,
                tried=None if plain.get("tried") is None else wire.number(plain, "tried"),
                lives=lives,
            )
        case "store-answered":
            return lanes.StoreAnswered(
                sender=sender,
                term=term,
                agreed=plain.get("agreed") is True,
                stored=wire.number(plain, "stored"),
                released=wire.number(plain, "released"),
                learns=plain.get("learns") is True,
                lives=lives,
            )
        case "teach-asked":
            return lanes.TeachAsked(sender=sender, term=term, lives=lives)
        case "store-asked":
            base = _entries(bodies, 1)[0] if plain.get("base") is True else None
            return lanes.StoreAsked(
                sender=sender,
                term=term,
                after=wire.number(plain, "after"),
                began_with=wire.number(plain, "began_with"),
                entries=_entries(bodies, wire.number(plain, "entries")),
                released=wire.number(plain, "released"),
                counts=plain.get("counts") is True,
                everywhere=wire.number(plain, "everywhere"),
                base=base,
                lives=lives,
            )
        case other:
            raise ConfigError(f"An entry point said {other!r}.", remedy="Run the same version on all nodes.")


def _entries(bodies: Iterator[bytes], count: int) -> tuple[bytes, ...]:
    found = tuple(islice(bodies, count))
    if len(found) != count:
        raise ConfigError(
            f"A message should come with {count} entries, and has {len(found)}.",
            remedy="Run the same version on all nodes.",
        )
    return found


def _list(message: wire.Message, key: str) -> list[wire.Message]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"A message needs {key!r} as a list.", remedy="Run the same version on all nodes.")
    return value


def _numbers(message: wire.Message, key: str) -> list[int]:
    value = message.get(key)
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ConfigError(f"A message needs {key!r} as numbers.", remedy="Run the same version on all nodes.")
    return value


# --- greetings -----------------------------------------------------------------------------------------------------


def greeting_message(greeting: Greeting) -> wire.Message:
    return {
        "source": greeting.source,
        "form": greeting.form,
        "name": greeting.name,
        "life": greeting.met.life,
        "token": greeting.met.token,
    }


def greeting_of(message: wire.Message) -> Greeting:
    return Greeting(
        source=wire.text(message, "source"),
        form=wire.text(message, "form"),
        name=wire.text(message, "name"),
        met=Met(wire.number(message, "life"), wire.text(message, "token")),
    )


def roll_message(roll: Roll) -> wire.Message:
    return {"roll": [{"name": name, "life": met.life, "token": met.token} for name, met in roll.items()]}


def roll_of(message: wire.Message) -> Roll:
    return {
        wire.text(each, "name"): Met(wire.number(each, "life"), wire.text(each, "token"))
        for each in _list(message, "roll")
    }

"""What entry points that share lanes say to each other, and how it crosses the wire.

A *letter* goes from one entry-point node to another: messages of ``core.shared_lane`` about any number of lanes, and in
return the answers to them. All letters to a node go on one call, which stays open. What the messages say is JSON; the
entries of the lanes, which hold rows, follow as bytes, in the form in which both sides store them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import NoneType
from typing import Any, Final, Protocol

from anabranch.core import shared_lane as lanes
from anabranch.core.roll_call import Met, Roll
from anabranch.errors import ConfigError
from anabranch.transport import wire

LETTERS: Final = b"lanes"
"""The descriptor by which a server knows letters from pushes."""

_SIZE: Final = struct.Struct("<I")

Message = lanes.Message[bytes]
_Plain = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
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
        {"sender": sender, "messages": [_plain(each) for each in messages], "sizes": list(map(len, bodies))}
    )
    return b"".join((_SIZE.pack(len(said)), said, *bodies))


def letter_of(data: bytes) -> tuple[str, list[AboutLane]]:
    message, bodies = _opened(data)
    found = iter(bodies)
    return wire.text(message, "sender"), [_about(plain, found) for plain in _list(message, "messages", list)]


def _opened(data: bytes) -> tuple[wire.Message, list[bytes]]:
    if len(data) < _SIZE.size:
        raise ConfigError("A letter is truncated.", remedy="Run the same version on all nodes.")
    (size,) = _SIZE.unpack_from(data)
    at = _SIZE.size + size
    message = wire.decode(data[_SIZE.size : at])
    bodies: list[bytes] = []
    for each in _list(message, "sizes", int):
        bodies.append(data[at : at + max(each, 0)])
        at += len(bodies[-1])
    if at != len(data) or list(map(len, bodies)) != message["sizes"]:
        raise ConfigError(
            f"A letter of {len(data):,} bytes does not hold what its header says.",
            remedy="Run the same version on all nodes.",
        )
    return message, bodies


def answers_message(messages: Sequence[AboutLane]) -> wire.Message:
    return {"messages": [_plain(each) for each in messages]}


def answers_of(message: wire.Message) -> list[AboutLane]:
    return [_about(plain, iter(())) for plain in _list(message, "messages", list)]


def _bodies(message: Message) -> list[bytes]:
    if not isinstance(message, lanes.StoreAsked):
        return []
    base = [] if message.base is None else [message.base]
    return [*base, *message.entries]


def _plain(about: AboutLane) -> _Plain:
    """What is said, about which lane, by whom, in which term and with which lives; and the rest by its kind."""
    said = about.message
    begins = about.source, about.lane, said.sender, said.term, said.lives
    match said:
        case lanes.StoreAsked():
            facts = said.after, said.began_with, len(said.entries), said.released, said.counts, said.everywhere
            return "store-asked", *begins, *facts, said.base is not None
        case lanes.StoreAnswered():
            return "store-answered", *begins, said.agreed, said.stored, said.released, said.learns
        case lanes.VoteAsked():
            return "vote-asked", *begins, *said.last, said.trial, said.takes_over
        case lanes.VoteAnswered():
            return "vote-answered", *begins, said.agreed, said.tried
        case lanes.TeachAsked():
            return "teach-asked", *begins


_BEGINS: Final = (str, str, str, str, int, dict)
_REST: Final[Mapping[str, Collection[tuple[type, ...]]]] = {
    "store-asked": [(int, int, int, int, bool, int, bool)],
    "store-answered": [(bool, int, int, bool)],
    "vote-asked": [(int, int, bool, bool)],
    "vote-answered": [(bool, int), (bool, NoneType)],
    "teach-asked": [()],
}
"""Of which types what is said must be."""


def _about(plain: Sequence[Any], bodies: Iterator[bytes]) -> AboutLane:
    kinds = tuple(map(type, plain))
    if kinds[: len(_BEGINS)] != _BEGINS or kinds[len(_BEGINS) :] not in _REST.get(plain[0], ()):
        raise ConfigError(
            f"An entry point sent {str(plain)[:200]}, which is not valid.", remedy="Run the same version on all nodes."
        )
    says, source, lane, sender, term, lives, *rest = plain
    if not set(map(type, lives.values())) <= {int}:
        raise ConfigError(
            f"An entry point sent lives {lives}, which are not valid.", remedy="Run the same version on all nodes."
        )
    return AboutLane(source=source, lane=lane, message=_message(says, sender, term, lives, rest, bodies))


def _message(
    says: str, sender: str, term: int, lives: dict[str, int], rest: Sequence[Any], bodies: Iterator[bytes]
) -> Message:
    match says:
        case "store-asked":
            after, began_with, count, released, counts, everywhere, has_base = rest
            base = _entries(bodies, 1)[0] if has_base else None
            return lanes.StoreAsked(
                sender=sender,
                term=term,
                after=after,
                began_with=began_with,
                entries=_entries(bodies, count),
                released=released,
                counts=counts,
                everywhere=everywhere,
                base=base,
                lives=lives,
            )
        case "store-answered":
            agreed, stored, released, learns = rest
            return lanes.StoreAnswered(
                sender=sender, term=term, agreed=agreed, stored=stored, released=released, learns=learns, lives=lives
            )
        case "vote-asked":
            last_term, last_place, trial, takes_over = rest
            last = last_term, last_place
            return lanes.VoteAsked(sender=sender, term=term, last=last, trial=trial, takes_over=takes_over, lives=lives)
        case "vote-answered":
            agreed, tried = rest
            return lanes.VoteAnswered(sender=sender, term=term, agreed=agreed, tried=tried, lives=lives)
        case _:
            return lanes.TeachAsked(sender=sender, term=term, lives=lives)


def _entries(bodies: Iterator[bytes], count: int) -> tuple[bytes, ...]:
    found = tuple(islice(bodies, max(count, 0)))
    if len(found) != count:
        raise ConfigError(
            f"A message should come with {count} entries, and has {len(found)}.",
            remedy="Run the same version on all nodes.",
        )
    return found


def _list(message: wire.Message, key: str, kind: type) -> list[Any]:
    value = message.get(key)
    if not isinstance(value, list) or not set(map(type, value)) <= {kind}:
        raise ConfigError(f"A message needs {key!r} as a list.", remedy="Run the same version on all nodes.")
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
        for each in _list(message, "roll", dict)
    }

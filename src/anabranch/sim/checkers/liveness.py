"""Liveness: after the last heal everything arrives, and every promise is made. And while a path lives, nothing stalls:
what the entry points have released comes out within a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.tape import Tape
from anabranch.sim.truth import Identity, Truth
from anabranch.sim.world import SECOND

STALL_US: Final = 12 * SECOND
"""How long a promise may take from an entry point to the client: batches, delays and slow links are part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A look at the whole: whether a path lives, what all lanes have promised, and what the client was promised."""

    at_us: int
    lives: bool
    entered_us: int
    came_out_us: int


def check_complete(
    truth: Truth, client: str, journals: Mapping[str, Tape], passed: Mapping[str, frozenset[Identity]]
) -> None:
    for stream, tape in journals.items():
        missing = sorted(set(truth.tuples[stream]) - passed.get(stream, frozenset()))
        if missing:
            raise Broken(f"{client} never got {len(missing)} tuples of {stream}, the first is {missing[0]}.")
        if dict(tape.promises) != dict(truth.promises[stream]):
            raise Broken(f"{client} was promised {dict(tape.promises)} of {stream}, not {truth.promises[stream]}.")


def check_all_entered(waiting: Sequence[str]) -> None:
    """``waiting`` are the producers whose last entry was not accepted when all was over."""
    if waiting:
        raise Broken(f"In the end {', '.join(waiting)} still had something to say.")


def check_no_stall(probes: Sequence[Probe]) -> None:
    """For each look: if a path lives from there on for long enough, what had entered by then has come out."""
    alive_since: int | None = None
    for number, probe in enumerate(probes):
        alive_since = (number if alive_since is None else alive_since) if probe.lives else None
        if alive_since is None:
            continue
        then = next((each for each in probes[alive_since:number] if probe.at_us - each.at_us <= STALL_US), probe)
        if probe.at_us - then.at_us == STALL_US and probe.came_out_us < then.entered_us:
            raise Broken(
                f"{at(probe.at_us)} the client was promised {probe.came_out_us}, though a path lived since "
                f"{then.at_us / SECOND:.1f} s, when {then.entered_us} had entered."
            )

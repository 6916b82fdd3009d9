"""Whether an entry point may take part: what its peers have written down of it, and it of them, in the source's store.

``core.roll_call`` has the rules. Whoever has begun has begun for ever: that is stored with its first copy of the lanes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from anabranch.core import roll_call
from anabranch.core.roll_call import Beginning, Met, Roll
from anabranch.errors import StateError
from anabranch.query.boxes import Source
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

_ROLL: Final = "entry points"
_BEGUN: Final = "entry point begun"


class Beginnings:
    """The roll of one source's entry points, as the one ``name`` keeps it. For one thread at a time."""

    def __init__(self, source: Source, store: Store, *, name: str, token: str, peers: tuple[str, ...]) -> None:
        self._name = name
        self._store = store
        self._roll = _decoded(store.get(_ROLL))
        self._beginning: Beginning | None = None
        if store.get(_BEGUN) is None:
            refuse_other_use(source, store)
            self._beginning = Beginning(name=name, token=token, peers=peers)

    @property
    def has_begun(self) -> bool:
        return self._beginning is None

    @property
    def waits_for(self) -> list[str]:
        """The peers that have not been heard yet."""
        return sorted(set(self._beginning.peers) - self._beginning.agreed) if self._beginning is not None else []

    def says(self, peer: str) -> Met | None:
        """What is to be told to a peer; None where there is nothing to tell."""
        if self._beginning is None or peer in self._beginning.agreed:
            return None
        return self._beginning.says

    def greeted(self, name: str, said: Met) -> Roll:
        """Another one told what it begins. It is written down before it is answered."""
        self._write(roll_call.greet(self._roll, name, said))
        return self._roll

    def answered(self, peer: str, roll: Roll) -> Beginning | None:
        """A peer has written down what this one begins; if that is enough, what it begins. ``begin`` must follow."""
        if self._beginning is None:
            return None
        self._write(roll_call.merged(self._roll, roll))
        self._beginning = self._beginning.answered(peer, roll[self._name])
        return self._beginning if self._beginning.may_begin else None

    def begin(self, transaction: Transaction) -> None:
        """To be stored with the lanes. ``has_begun`` is true when ``begun`` was called after the commit."""
        assert self._beginning is not None
        transaction.put(_BEGUN, str(self._beginning.life).encode())

    def begun(self) -> None:
        self._beginning = None

    def _write(self, roll: Roll) -> None:
        if roll != self._roll:
            with self._store.transaction() as transaction:
                transaction.put(_ROLL, _encoded(roll))
            self._roll = roll


def refuse_other_use(source: Source, store: Store) -> None:
    """A store in which the source had no other entry points cannot become one of several: the others lack its rows."""
    if any(store.get(f"lane/{lane}") is not None for lane in source.lanes):
        raise StateError(
            f"Source {source.name!r} accepted rows here before it had other entry points.",
            remedy="Give the deployment a new state directory.",
        )


def refuse_shared(source: Source, store: Store) -> None:
    """Nor the other way round: what the others have released may not be here."""
    if store.get(_BEGUN) is not None:
        raise StateError(
            f"Source {source.name!r} shared its lanes with other entry points here, but now has none.",
            remedy="Run the deployment that wrote this state directory, or use another one.",
        )


def _encoded(roll: Roll) -> bytes:
    return json.dumps({name: [met.life, met.token] for name, met in roll.items()}).encode()


def _decoded(stored: bytes | None) -> Roll:
    plain: Mapping[str, tuple[int, str]] = json.loads(stored) if stored is not None else {}
    return {name: Met(life, token) for name, (life, token) in plain.items()}

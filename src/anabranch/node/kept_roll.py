"""What an entry point has written down of itself and its peers, in the store of its source: the port of its
``Membership``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from anabranch.core.roll_call import Met, Roll
from anabranch.core.shared_lane import LaneCopy
from anabranch.errors import StateError
from anabranch.node import kept_lane
from anabranch.node.kept_lane import Copy
from anabranch.query.boxes import Source
from anabranch.storage.store import Store

_ROLL: Final = "entry points"
_BEGUN: Final = "entry point begun"


class KeptRoll:
    """For one thread at a time."""

    def __init__(self, source: Source, store: Store) -> None:
        self._source = source
        self._store = store
        if not self.has_begun():
            _refuse_other_use(source, store)

    def roll(self) -> Roll:
        return _decoded(self._store.get(_ROLL))

    def has_begun(self) -> bool:
        return self._store.get(_BEGUN) is not None

    def write_roll(self, roll: Roll) -> None:
        with self._store.transaction() as transaction:
            transaction.put(_ROLL, _encoded(roll))

    def begin(self, life: int, copy: Copy) -> None:
        with self._store.transaction() as transaction:
            for lane in self._source.lanes:
                kept_lane.save(transaction, lane, LaneCopy(), copy)
            transaction.put(_BEGUN, str(life).encode())


def _refuse_other_use(source: Source, store: Store) -> None:
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

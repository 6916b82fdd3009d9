"""Tuples to a batch writer of Spark, once each: what is going to be written is noted before, what was written after.

The notes lie in the store of the output's log. A batch that was noted and not ticked off may be there in whole, in part
or not at all: after a crash or an error its ids are read back, and only the missing ones are written. Where nothing can
be read back, and the user accepted that, such a batch is written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch import failpoints
from anabranch.connectors.writer import Found, written_schema
from anabranch.engine.writer import SparkTarget
from anabranch.errors import StateError
from anabranch.model.header import ID
from anabranch.query.connectors import SparkWriter, writer_key
from anabranch.storage.log import Log
from anabranch.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What is known of a target: tuples up to ``done`` are there, those up to ``intended`` may be."""

    incarnation: str
    done: int = 0
    first: int = 0
    intended: int = 0

    def to_bytes(self) -> bytes:
        return json.dumps([self.incarnation, self.done, self.first, self.intended]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Note:
        incarnation, done, first, intended = json.loads(data)
        return cls(incarnation=incarnation, done=done, first=first, intended=intended)


class SparkTuples:
    """One batch writer of Spark."""

    durable = True

    def __init__(self, spec: SparkWriter, target: Any, store: Store, log: Log) -> None:
        self.rows = spec.rows
        self.every_us = spec.every_us
        self._target: SparkTarget = target
        self._key = f"writer/{log.name}/{writer_key(spec)}"
        self._exact = spec.guarantee == "exactly-once"
        self._store = store
        self._log = log
        self._note = Note(incarnation=log.incarnation)

    def recover(self) -> Found:
        stored = self._store.get(self._key)
        if stored is None:
            self._begin()
            return Found()
        self._note = Note.from_bytes(stored)
        if self._note.done == 0:
            return Found()
        return Found(last_id=self._note.done, incarnation=self._note.incarnation)

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        tuples = pa.Table.from_batches(list(batches))
        ids = tuples.column(ID)
        first, last = ids[0].as_py(), ids[-1].as_py()
        if self._exact and first <= self._note.intended:
            there = self._target.ids(first, self._note.intended)
            tuples = tuples.filter(pc.invert(pc.is_in(ids, value_set=there)))
        self._keep(replace(self._note, first=first, intended=max(last, self._note.intended)))
        failpoints.reach("writer.intended")
        if tuples.num_rows:
            self._target.append(tuples)
        self._keep(replace(self._note, done=last))

    def close(self) -> None:
        """Nothing is open between two batches."""

    def _begin(self) -> None:
        """The first time: a target that can be read back must be empty, or old ids would pass for new ones."""
        if self._exact and not self._target.is_empty(written_schema(self._log.spec.schema)):
            raise StateError(
                f"The target of {self._key.partition('/')[2]} already holds rows, but this writer has not written any.",
                remedy="Give a new table or path.",
            )
        self._keep(self._note)

    def _keep(self, note: Note) -> None:
        with self._store.transaction() as transaction:
            transaction.put(self._key, note.to_bytes())
        self._note = note

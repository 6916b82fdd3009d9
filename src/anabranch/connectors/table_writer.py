"""An output as a table: each key has its newest tuple, whatever the order in which tuples come.

The log has tuples in the order of arrival, so a newer one may stand before an older one, and after a crash tuples come
again. So every row carries its version, ``(_stime, _origin, _tid)``, the canonical order of streams, and a tuple
replaces a row only if its version is larger: a repeated or older one changes nothing. How far the writer has come
stands in a table beside it and is written in the same transaction: after a crash of either side it goes on with the
tuple after the last one that the database kept. What each database needs of its own is in ``databases``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from anabranch.connectors.databases import Database, Layout, Progress, database
from anabranch.connectors.writer import Found
from anabranch.errors import StateError
from anabranch.model.header import ID, ORIGIN, STIME, TID
from anabranch.query.connectors import TableWriter, writer_key


class KeyedTable:
    """One table of one database."""

    durable = True

    def __init__(self, writer: TableWriter, *, schema: pa.Schema, incarnation: str) -> None:
        self.rows = writer.rows
        self.every_us = writer.every_us
        self._name = writer_key(writer)
        self._incarnation = incarnation
        self._layout = _layout(writer, schema)
        self._database: Database = database(writer, self._layout)

    def recover(self) -> Found:
        self._database.close()
        self._database.open()
        found = self._database.progress()
        if found is None:
            return Found()
        return Found(last_id=found.last_id, incarnation=found.incarnation)

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        tuples = pa.Table.from_batches(batches)
        self._refuse_null_keys(tuples)
        last_id = tuples.column(ID)[-1].as_py()
        self._database.upsert(tuples.select(self._layout.columns), Progress(self._incarnation, last_id))

    def close(self) -> None:
        self._database.close()

    def _refuse_null_keys(self, tuples: pa.Table) -> None:
        """NULL equals nothing in a database: such rows could not be found again."""
        for name in self._layout.key:
            column = tuples.column(name)
            if column.null_count:
                first = tuples.column(ID)[column.is_null().index(True).as_py()].as_py()
                raise StateError(
                    f"{self._name}: {name!r} is part of the key, and is NULL in tuple {first}.",
                    remedy=f"Filter such tuples, or give it a value: coalesce({name}, ...).",
                )


def _layout(writer: TableWriter, schema: pa.Schema) -> Layout:
    """The columns of the table: data, then the version. Keys are found in any case, as everywhere."""
    data = [field for field in schema if field.name not in (ID, TID, STIME, ORIGIN)]
    names = {field.name.lower(): field.name for field in data}
    version = (STIME, ORIGIN, TID)
    fields = pa.schema([*data, *(schema.field(name) for name in version)])
    return Layout(
        table=writer.table,
        fields=fields,
        key=tuple(names[name.lower()] for name in writer.key) or version,
        version=version,
    )

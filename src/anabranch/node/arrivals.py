"""A push as it came over the wire, as the event that a lane understands.

Here the columns are checked against the source, and the column that holds stream time becomes an array of microseconds.
What it means for the lane is not decided here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.core.lane_messages import BoundaryArrived, CloseArrived, Entry, RowsArrived, VoidsArrived
from anabranch.errors import PushRefused
from anabranch.model.header import STIME
from anabranch.query.boxes import Source
from anabranch.transport.ports import Push


def arrival(push: Push, source: Source, schema: pa.Schema, now_us: int) -> Entry:
    """The event that this push is for its lane."""
    who, session, first = push.producer, push.session, push.first
    match push.kind:
        case "rows":
            rows = push.rows if push.rows is not None else pa.RecordBatch.from_pylist([], schema=schema)
            _check_columns(rows, source, schema)
            times, nulls = _times(rows, source)
            count = rows.num_rows
            return RowsArrived(
                count=count, now_us=now_us, producer=who, session=session, first=first, times=times, nulls=nulls
            )
        case "boundary":
            if push.time_us is None:
                raise PushRefused("A boundary needs a time.", remedy="Send time_us.")
            return BoundaryArrived(time_us=push.time_us, now_us=now_us, producer=who, session=session, first=first)
        case "void":
            if who is None or session is None or first is None:
                raise PushRefused("Only a producer that numbers its rows can void numbers.", remedy="Register first.")
            return VoidsArrived(count=push.count, now_us=now_us, producer=who, session=session, first=first)
        case "close":
            return CloseArrived(now_us=now_us, producer=who, session=session, first=first)


def _check_columns(rows: pa.RecordBatch, source: Source, schema: pa.Schema) -> None:
    if not _stamped_by_producer(source) and rows.schema.equals(schema):
        return
    wanted = {field.name: field.type for field in schema}
    if _stamped_by_producer(source):
        wanted[STIME] = pa.timestamp("us", tz="UTC")
    found = {field.name: field.type for field in rows.schema}
    if found == wanted:
        return
    faults = [f"{name} is missing" for name in wanted if name not in found]
    faults += [f"{name} is unknown" for name in found if name not in wanted]
    faults += [
        f"{name} is {found[name]}, not {wanted[name]}"
        for name in wanted
        if found.get(name, wanted[name]) != wanted[name]
    ]
    columns = ", ".join(f"{name} {type_}" for name, type_ in wanted.items())
    raise PushRefused(
        f"The columns do not match source {source.name!r}: {'; '.join(faults)}.", row=0, remedy=f"Send {columns}."
    )


def _times(rows: pa.RecordBatch, source: Source) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.bool_] | None]:
    """The column that holds stream time, as microseconds and a mask of its NULLs; nothing for rows stamped on
    arrival."""
    time = STIME if _stamped_by_producer(source) else source.time
    if time is None:
        return None, None
    name = next(name for name in rows.schema.names if name.lower() == time.lower())  # as the schema spells it
    column = rows.column(name).cast(pa.int64())
    return column.fill_null(0).to_numpy(zero_copy_only=False), column.is_null().to_numpy(zero_copy_only=False)


def _stamped_by_producer(source: Source) -> bool:
    return bool(source.producers) and source.time is None

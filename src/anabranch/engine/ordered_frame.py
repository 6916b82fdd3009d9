"""A stream through a box that depends on order: rows go to the shards of their groups, and what comes out is a stream.

The one way by which every such box gets its state in Spark: ``ordered`` says what it sees, ``shards`` what it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.engine.hashing import TypedColumn, identity_hash
from anabranch.engine.ordered import OrderedBox
from anabranch.engine.packing import GROUP
from anabranch.engine.packs import order, pack, unpack
from anabranch.query.sql import quote


def in_order(
    frame: DataFrame,
    name: str,
    group: Sequence[TypedColumn],
    box: OrderedBox,
    made: StructType,
    *,
    without: Sequence[str] = (),
    together: Sequence[str] | None = None,
) -> DataFrame:
    """What a box called ``name`` makes of the frame's rows, each group by itself; ``made`` has the columns of that.

    Columns ``without`` which it can do are there for the group alone. ``together`` are columns of the result that tell
    its groups apart, where it has them: what they group next need not be shuffled. The result is not a stream but the
    rows of one batch (``packs.as_stream``).
    """
    hashes = [identity_hash(kind, name, group).alias(kind) for kind in GROUP]
    rows = frame.select(*hashes, *[quote(column) for column in frame.columns if column not in without])
    return unpack(order(pack(rows), box), made, together)

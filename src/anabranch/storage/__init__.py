"""Durable logs on SQLite: what was committed here survives the process and the power supply.

A ``Store`` is one SQLite file, and so one transaction domain: the logs, the small state and the batch ledger in it
change together or not at all. Large rows lie in files beside it, which count only if it names them. Knows Arrow
batches, sequences and punctuations; nothing of queries, Spark or Flight, and it starts no thread. Whoever opens a store
has made sure that no other process has it open.
"""

from __future__ import annotations

from anabranch.storage.bodies import Bodies
from anabranch.storage.connection import Connection, configure, connect_sqlite
from anabranch.storage.log import Log, Segment
from anabranch.storage.state import LogSpec
from anabranch.storage.store import Store
from anabranch.storage.transaction import Appended, BatchRecord, Transaction

__all__ = [
    "Appended",
    "BatchRecord",
    "Bodies",
    "Connection",
    "Log",
    "LogSpec",
    "Segment",
    "Store",
    "Transaction",
    "configure",
    "connect_sqlite",
]

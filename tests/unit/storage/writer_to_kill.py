"""A program that appends for ever and says after each commit how far it is: somebody will kill it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from anabranch.storage import Bodies, Store
from tests.unit.storage.stories import NOW, rows, spec

store = Store.open(Path(sys.argv[1]), bodies=partial(Bodies, large_bytes=30_000))
log = store.create_log(spec())
print("ready", flush=True)
while True:
    number = log.last_id()
    with store.transaction() as transaction:
        transaction.append("s", rows([number], padding=number % 7 * 10_000), {}, now_us=NOW)
        transaction.append("s", rows([number + 1]), {}, now_us=NOW)
        transaction.put("k", str(number + 2).encode())
    print(number + 2, flush=True)

"""What tests cost: ``--costs FILE`` lists their wall and processor time, with all the processes that they start.

To ask for the processor time takes some milliseconds, so tests that are quick are listed together, by file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from anabranch.bench.processes import ALL, cpu_seconds

QUICK_S = 0.5


class Costs:
    """A plugin of pytest. The parent of pytest is asked, too: it may have adopted what tests have killed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._costs: list[dict[str, object]] = []
        self._at_s = time.monotonic()
        self._used_s = _used_s()

    def pytest_collection_finish(self) -> None:
        self._note("loading and collecting")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        began_s = time.monotonic()
        result = yield
        if time.monotonic() - began_s > QUICK_S:
            self._note(item.nodeid)
        elif nextitem is None or nextitem.path != item.path:
            self._note(f"{item.nodeid.partition('::')[0]}, the quick ones")
        return result

    def pytest_sessionfinish(self) -> None:
        self._note("ending")
        self._file.write_text(json.dumps(self._costs))

    def _note(self, what: str) -> None:
        """All since the last note."""
        now_s, used_s = time.monotonic(), _used_s()
        self._costs.append({"test": what, "wall_s": now_s - self._at_s, "processor_s": used_s - self._used_s})
        self._at_s, self._used_s = now_s, used_s


def _used_s() -> float:
    return cpu_seconds(os.getppid())[ALL]

"""Tuples on standard output, for people who look: from now on, as long as somebody does, and never in the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from anabranch.connectors.json_text import json_lines
from anabranch.connectors.writer import Found
from anabranch.query.connectors import ConsoleWriter

SHOWN_ROWS: Final = 1_000
"""Tuples that are shown at once."""


class Console:
    """Standard output of the node: JSON lines, or a table for each batch."""

    durable = False
    rows = SHOWN_ROWS
    every_us = 0

    def __init__(self, writer: ConsoleWriter, *, output: str) -> None:
        self._form = writer.form
        self._output = output

    def recover(self) -> Found:
        return Found()

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            text = json_lines(batch).decode() if self._form == "json" else self._table(batch)
            sys.stdout.write(text)
        sys.stdout.flush()

    def close(self) -> None:
        """It is not ours to close."""

    def _table(self, batch: pa.RecordBatch) -> str:
        return f"{self._output}\n{batch.to_pandas().to_string(index=False)}\n\n"

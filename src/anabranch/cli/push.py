"""``anabranch push``: rows from a file or pipe to a source of a node."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli import completing
from anabranch.cli.colours import Tone, can_move, painted
from anabranch.cli.records import Record, batches
from anabranch.errors import ConfigError, PushRefused

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.transport.ports import PushAnswer
    from anabranch.transport.session import Connections, Producer

STDIN: Final = "-"
LIVE_S: Final = 0.2
PLAIN_S: Final = 5.0
SHOWN_SKIPS: Final = 20
"""Skipped rows that are told one by one; more are only counted."""


class Format(StrEnum):
    """How rows are written."""

    jsonl = "jsonl"
    csv = "csv"


SUFFIXES: Final = {
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".json": Format.jsonl,
    ".csv": Format.csv,
}


def push(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as host:port.")],
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The source to push to.", autocompletion=completing.source)
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="The rows; - is standard input.", autocompletion=completing.files(*SUFFIXES)
        ),
    ] = STDIN,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the rows. [default: by the file's suffix]")
    ] = None,
    producer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Number the rows under this name: retries are harmless.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Another entry point of the source, used if the first is lost."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=50_000, help="Rows to send at once.")] = 1_000,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Report bad rows and continue without them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON, also after an error.")] = False,
) -> None:
    """Push rows to a source, as JSON lines or as CSV with a header.

    Rows are sent in batches; each is accepted whole and durably, or refused whole. A bad row ends the command with exit
    code 2, and the error names file and line. With --producer, row k of the input is row k of that producer forever:
    after a crash of the command or the node, run the same command again, and it resumes where it was; nothing is lost
    or repeated. If the source has several entry points, name the others with --node: if one is lost, the command
    continues at another.

    \b
    Examples:
      anabranch push 127.0.0.1:7700 ping pings.jsonl --producer agent1
      anabranch push a:7700 ping pings.jsonl --producer agent1 --node b:7700 --node c:7700
      tail -f pings.csv | anabranch push 127.0.0.1:7700 ping - --format csv
      anabranch push 127.0.0.1:7700 ping pings.csv --skip-bad --json | jq .skipped
    """
    from anabranch.transport.session import connect

    chosen = form or _format_of(file)
    if file == STDIN and sys.stdin.isatty():
        typer.echo(painted("waiting for rows typed here; Ctrl-D ends the input", Tone.beside, err=True), err=True)
    with _opened(file) as descriptor, connect([address, *(node or [])]) as connection:
        feed = _Feed(connection, stream, producer, name="standard input" if file == STDIN else file, skip_bad=skip_bad)
        try:
            for records in batches(descriptor, max_rows=batch, quoted=chosen is Format.csv):
                feed.send(records, chosen)
        finally:
            feed.finish(as_json=as_json)


def _format_of(file: str) -> Format:
    if file == STDIN:
        return Format.jsonl
    suffix = Path(file).suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"Cannot tell the row format from the name of {file}.", remedy="Give --format.")
    return SUFFIXES[suffix]


@contextmanager
def _opened(file: str) -> Iterator[int]:
    if file == STDIN:
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 0)  # a directory opens, and cannot be read
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", remedy="Check the path.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Feed:
    """Sends records, counts what became of them, and says so."""

    def __init__(
        self, connection: Connections, stream: str, producer: str | None, *, name: str, skip_bad: bool
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._producer: Producer | None = connection.producer(stream, producer) if producer else None
        self._schema = self._producer.schema if self._producer else connection.source_schema(stream)
        self._name = name
        self._skip_bad = skip_bad
        self._known = self._producer.next - 1 if self._producer else 0
        """Rows at the beginning of the input that the node had before."""
        self._seen = 0
        self._header = b""
        self._tally = _Tally()

    def send(self, records: list[Record], form: Format) -> None:
        if form is Format.csv and not self._header:
            self._header, records = records[0].text.removeprefix(b"\xef\xbb\xbf"), records[1:]
        known = min(len(records), max(0, self._known - self._seen))
        self._seen += len(records)
        self._tally.repeated += known
        self._send_new(records[known:], form)
        self._tally.show()

    def finish(self, *, as_json: bool) -> None:
        self._tally.show_all(as_json=as_json)

    def _send_new(self, records: list[Record], form: Format) -> None:
        while records:
            try:
                self._tally.add(self._push(self._converted(records, form)))
                return
            except PushRefused as error:
                if error.row is None or not self._skip_bad:
                    raise self._located(error, records) from error
                self._send_new(records[: error.row], form)
                self._skip(records[error.row], error)
                records = records[error.row + 1 :]

    def _converted(self, records: list[Record], form: Format) -> pa.RecordBatch:
        from anabranch.transport.rows import from_csv, from_json_lines

        text = b"\n".join(record.text for record in records)
        if form is Format.csv:
            return from_csv(self._header + b"\n" + text, self._schema)
        return from_json_lines(text, self._schema)

    def _push(self, rows: pa.RecordBatch) -> PushAnswer:
        if self._producer is not None:
            return self._producer.push(rows)
        return self._connection.push(self._stream, rows)

    def _skip(self, record: Record, error: PushRefused) -> None:
        """A bad row keeps its number, without a row: those after it are the same the next time."""
        if self._producer is not None:
            self._producer.void(1)
        self._tally.skipped += 1
        if self._tally.skipped <= SHOWN_SKIPS:
            self._tally.say(f"skipped {self._name}, line {record.line}: {_reason(error)}")

    def _located(self, error: PushRefused, records: list[Record]) -> PushRefused:
        """The refusal with file and line instead of the row of some batch."""
        kept = f"{self._tally.accepted:,} rows before it were accepted" if self._tally.accepted else "nothing was sent"
        if error.row is None:
            return PushRefused(f"{self._name}: {error.message}", remedy=error.remedy)
        line = records[error.row].line
        return PushRefused(
            f"{self._name}, line {line}: {_reason(error)} "
            f"Its whole batch, which begins at line {records[0].line}, was refused; {kept}.",
            row=error.row,
            remedy=error.remedy,
        )


def _reason(error: PushRefused) -> str:
    return error.message.removeprefix(f"Row {(error.row or 0) + 1}: ")


@dataclass(slots=True)
class _Tally:
    """What became of the rows; on a terminal one line that changes, elsewhere a line now and then."""

    accepted: int = 0
    repeated: int = 0
    late: int = 0
    skipped: int = 0
    _shown: float = field(default_factory=time.monotonic)

    def add(self, answer: PushAnswer) -> None:
        self.accepted += answer.rows
        self.repeated += answer.repeated
        self.late += answer.late

    def show(self) -> None:
        live = can_move(sys.stderr)
        now = time.monotonic()
        if now - self._shown >= (LIVE_S if live else PLAIN_S):
            self._shown = now
            typer.echo(f"\r\x1b[K{self}" if live else str(self), err=True, nl=not live)

    def say(self, text: str) -> None:
        typer.echo(f"\r\x1b[K{text}" if can_move(sys.stderr) else text, err=True)

    def show_all(self, *, as_json: bool) -> None:
        if can_move(sys.stderr):
            typer.echo("\r\x1b[K", err=True, nl=False)
        typer.echo(json.dumps(self.counts()) if as_json else str(self))

    def counts(self) -> dict[str, int]:
        return {
            "accepted": self.accepted,
            "repeated": self.repeated,
            "late": self.late,
            "skipped": self.skipped,
        }

    def __str__(self) -> str:
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        return f"{self.accepted:,} rows accepted, {self.repeated:,} repeated, {self.late:,} late{skipped}"

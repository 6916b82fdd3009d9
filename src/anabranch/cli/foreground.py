"""A host that runs in the foreground of a shell: started with progress, watched, and stopped when someone asks."""

from __future__ import annotations

import faulthandler
import math
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

from anabranch.cli.colours import Tone, painted
from anabranch.cli.stopping import Signals
from anabranch.cli.waiting import Waiting, running_line

if TYPE_CHECKING:
    from anabranch.errors import AnabranchError
    from anabranch.node.host import Host

LOOK_S: Final = 1.0
"""How often a running host is asked whether it has failed."""

LIVE_LOOK_S: Final = 0.2
"""The same where someone watches a line that moves."""


def run_host(
    host: Host, signals: Signals, waiting: Waiting, *, running: Callable[[], None], for_us: int | None, live: bool
) -> None:
    """From its start to its stop. ``running`` is called in between; ``live`` shows a line that moves."""
    if not faulthandler.is_enabled():  # a fault in a native library leaves more behind than silence
        faulthandler.enable()
    try:
        with signals.obeyed():
            with waiting:
                host.start()
            signals.check()
            running()
            _wait(host, signals, for_us, live=live)
    finally:
        host.stop()
        close_spark()


def close_spark() -> None:
    """Ends the Spark of this process, where there is any: it is not imported for this."""
    if "anabranch.engine.session" in sys.modules:
        from anabranch.engine.session import close_session

        close_session()


def tell_error(error: AnabranchError, *, before: str = "", after: str = "") -> None:
    typer.echo(f"{before}{painted(f'error[{error.code}]:', Tone.bad, err=True)} {error}{after}", err=True)


def _wait(host: Host, signals: Signals, for_us: int | None, *, live: bool) -> None:
    """Until someone asks us to stop, the time is over, or the node has failed."""
    told: set[object] = set()
    new_line = "\n" if live else ""  # below the line that moves
    ends_s = math.inf if for_us is None else time.monotonic() + for_us / 1_000_000
    look_s = LIVE_LOOK_S if live else LOOK_S
    while signals.received is None and (left_s := ends_s - time.monotonic()) > 0:
        failure, failed, queries = host.failure(), host.failed_stages(), host.failures()
        for stage, error in failed.items():
            if stage not in told and error is not failure:
                tell_error(error, before=new_line, after="" if failure else " The other stages continue.")
        for query, error in queries.items():
            if query not in told and error is not failure and error not in failed.values():
                tell_error(error, before=f"{new_line}query {query}: ", after=" The other queries continue.")
        parts = {("part", *each): error for each, error in host.failed_parts().items()}
        for (_, query, part), error in parts.items():
            if ("part", query, part) not in told and query not in queries and error not in failed.values():
                tell_error(error, before=f"{new_line}{part} of query {query}: ", after=" Its other parts continue.")
        told |= {*failed, *queries, *parts}
        if failure is not None:
            raise failure
        if live:
            line = running_line(host.statistics(), shutil.get_terminal_size().columns - 1)
            typer.echo(f"\r\x1b[K{line}", nl=False)
        signals.wait(min(look_s, left_s))
    if live:
        typer.echo()

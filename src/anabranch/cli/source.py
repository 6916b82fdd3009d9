"""``anabranch source close``: end a lane by hand, so that nothing waits for it any more."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli import completing

source = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@source.callback()
def _verbs() -> None:
    """Act on a source of a running node: close a lane.

    \b
    Example:
      anabranch source close 127.0.0.1:7700 ping agent2
    """


@source.command()
def close(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as host:port.")],
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="The source.", autocompletion=completing.source)],
    lane: Annotated[
        str | None, typer.Argument(metavar="LANE", help="The lane: a producer. Not needed if there is only one.")
    ] = None,
) -> None:
    """Close a lane permanently.

    It accepts no more rows, and nothing waits for it.

    \b
    Example:
      anabranch source close 127.0.0.1:7700 ping agent2
    """
    from anabranch.transport.session import connect

    with connect(address) as connection:
        connection.client.close_lane(name, lane)
    typer.echo(f"closed {name}/{lane}" if lane else f"closed {name}")

"""``anabranch reader forget``: let a log continue without a named reader that will not return."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli import completing

reader = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@reader.callback()
def _verbs() -> None:
    """Act on a named reader of a stream: forget it.

    \b
    Example:
      anabranch reader forget 127.0.0.1:7700 network_problems dashboard
    """


@reader.command()
def forget(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as host:port.")],
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The stream it reads.", autocompletion=completing.stream)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The reader, as `anabranch status` shows it.")],
) -> None:
    """Forget a named reader.

    The log no longer keeps rows for it.

    \b
    Example:
      anabranch reader forget 127.0.0.1:7700 network_problems dashboard
    """
    from anabranch.transport.session import connect

    with connect(address) as connection:
        connection.client.forget_reader(stream, name)
    typer.echo(f"forgot reader {name} of {stream}")

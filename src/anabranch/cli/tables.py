"""Tables that fit: as wide as they need to be, narrower by folding text, and one fact a line where even that fails.

Numbers and states are never cut nor folded, and nothing is left out: what cannot stand side by side stands below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Column, Table
    from rich.text import Text

NARROWEST: Final = 15
"""What a column of text needs to be readable when it is folded: a date, or a time of day with its microseconds."""

GAP: Final = 2


def table(title: str, *columns: str) -> Table:
    """A plain table. ``>`` before a column's name aligns it to the right; ``>`` and ``=`` keep cells in one line."""
    from rich import box
    from rich.table import Table

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),  # the box adds one
    )
    for name in columns:
        whole = name.startswith((">", "="))
        made.add_column(
            name.lstrip(">="),
            justify="right" if name.startswith(">") else "left",
            overflow="fold",
            no_wrap=whole,
        )
    return made


def print_table(console: Console, made: Table) -> None:
    console.print()
    console.print(made if narrowest_width(made) <= console.width else _facts(made))


def narrowest_width(made: Table) -> int:
    """The columns it needs at least to be read as a table."""
    return sum(map(_narrowest, made.columns)) + GAP * (len(made.columns) - 1)


def _narrowest(column: Column) -> int:
    widest = max(cell.cell_len for cell in _cells(column, with_name=True))
    return widest if column.no_wrap else min(widest, NARROWEST)


def _facts(made: Table) -> RenderableType:
    """The rows one after the other: the first cell, and below it each other one that says something, with its name."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    first, *others = ([*_cells(column)] for column in made.columns)
    names = [str(column.header) for column in made.columns[1:]]
    parts: list[RenderableType] = [Text(str(made.title), style="bold")]
    for number, head in enumerate(first):
        parts.append(head)
        facts = Table.grid(padding=(0, GAP, 0, 0))
        facts.add_column(no_wrap=True)
        facts.add_column(overflow="fold")
        for name, cells in zip(names, others, strict=True):
            if cells[number].plain:
                facts.add_row(name, cells[number])
        if facts.row_count:
            indent = len(head.plain) - len(head.plain.lstrip()) + GAP
            parts.append(Padding(facts, (0, 0, 0, indent)))
    return Group(*parts)


def _cells(column: Column, *, with_name: bool = False) -> list[Text]:
    from rich.text import Text

    cells = [*([column.header] if with_name else []), *column.cells]
    made = [cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells]
    return [line for cell in made for line in cell.split("\n")] if with_name else made

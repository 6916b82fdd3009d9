"""Drawing a diagram: as text for a terminal, and as Mermaid for documents.

Draws whatever there is, also diagrams with mistakes in them; a schema that is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.query import catalog, graph
from anabranch.query.boxes import Arrow, Box, Diagram, Schema, Table, title
from anabranch.query.connectors import without_password, writer_key
from anabranch.query.schema import format_schema
from anabranch.query.schemas import schemas


def as_text(diagram: Diagram) -> str:
    """One paragraph per box, in the order of flow: what it reads, what it does, what comes out; then the tables."""
    found = schemas(diagram)
    lines = [f"query {diagram.name}", ""]
    for box in _drawn(diagram):
        inputs = f" <- {', '.join(map(str, box.inputs))}" if box.inputs else ""
        lines.append(f"{title(box)}{inputs}")
        lines.extend(f"  | {line}" for line in _parameters(box))
        lines.extend(f"  {line}" for line in _outputs(box, found))
        lines.append("")
    for table in diagram.tables:
        lines += [f"table {table.name}", *(f"  | {line}" for line in _place(table)), f"  {_columns(table.schema)}", ""]
    for output in diagram.outputs:
        to = "".join(f", to {writer_key(writer)}" for writer in output.to)
        lines.append(f"output {output.name} <- {output.input}{to}")
    return "\n".join(lines).rstrip() + "\n"


def as_mermaid(diagram: Diagram) -> str:
    """A flowchart with the boxes' parameters in them and the schemas on the arrows."""
    found = schemas(diagram)
    nodes = {box.name: f"b{number}" for number, box in enumerate(_drawn(diagram))}
    lines = ["flowchart LR"]
    for box in _drawn(diagram):
        opening, closing = catalog.kind(box).shape
        text = "<br/>".join(_escaped(line) for line in (title(box), *_parameters(box)))
        lines.append(f'  {nodes[box.name]}{opening}"{text}"{closing}')
    for number, output in enumerate(diagram.outputs):
        lines.append(f'  o{number}(["{_escaped(f"output {output.name}")}"])')
    arrows = [(arrow, nodes[box.name]) for box in _drawn(diagram) for arrow in box.inputs]
    arrows += [(output.input, f"o{number}") for number, output in enumerate(diagram.outputs)]
    for arrow, reader in arrows:
        if arrow.box in nodes:
            lines.append(f"  {nodes[arrow.box]} -->{_label(arrow, diagram, found)} {reader}")
    return "\n".join(lines) + "\n"


def _drawn(diagram: Diagram) -> tuple[Box, ...]:
    """In the order of flow; what is in a cycle comes last."""
    ordered = graph.order(diagram)
    names = {box.name for box in ordered}
    return (*ordered, *(box for box in diagram.boxes if box.name not in names))


def _parameters(box: Box) -> Iterator[str]:
    return catalog.kind(box).lines(box)


def _outputs(box: Box, found: dict[Arrow, Schema]) -> Iterator[str]:
    """The schema, once: all ports of a box have the same."""
    schema = found.get(Arrow(box.name))
    if schema is not None:
        yield _columns(schema)


def _columns(schema: Schema) -> str:
    return f"-> {format_schema(schema)}"


def _place(table: Table) -> Iterator[str]:
    """Where the rows of a table are, and what tells them apart."""
    if table.file is not None:
        yield f"file {table.file}"
    if table.database is not None:
        yield f"database {without_password(table.database)}"
        yield table.sql or ""
    if table.rows is not None:
        yield f"{len(table.rows):,} rows in the query"
    yield f"key {', '.join(table.key)}"


def _label(arrow: Arrow, diagram: Diagram, found: dict[Arrow, Schema]) -> str:
    schema = found.get(arrow)
    columns = [f"{column.name} {column.type or '?'}" for column in schema or ()]
    several = graph.ports(diagram.box(arrow.box)) > 1
    lines = [f"port {arrow.port}", *columns] if several else columns
    return f'|"{"<br/>".join(map(_escaped, lines))}"|' if lines else ""


def _escaped(text: str) -> str:
    """Mermaid reads its own entities, ``#quot;`` for one, also inside quotes."""
    for plain, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;")):
        text = text.replace(plain, entity)
    return text

"""Drawing a diagram: as text for a terminal, and as Mermaid for documents.

Draws whatever there is, also diagrams with mistakes in them; a schema that is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.times import format_duration
from anabranch.query import graph
from anabranch.query.boxes import Aggregate, Arrow, Box, Diagram, Drop, Filter, Join, Map, Schema, Source, Union
from anabranch.query.connectors import writer_key
from anabranch.query.schema import format_schema, schemas
from anabranch.query.specs import kind_name
from anabranch.query.text import kind_of, title

_SHAPES = {
    "source": ("([", "])"),
    "filter": ("{{", "}}"),
    "map": ("[/", "/]"),
    "drop": (">", "]"),
    "union": ("((", "))"),
    "aggregate": ("[[", "]]"),
    "join": ("[", "]"),
}


def as_text(diagram: Diagram) -> str:
    """One paragraph per box, in the order of flow: what it reads, what it does, what comes out."""
    found = schemas(diagram)
    lines = [f"query {diagram.name}", ""]
    for box in _drawn(diagram):
        inputs = f" <- {', '.join(map(str, box.inputs))}" if box.inputs else ""
        lines.append(f"{title(box)}{inputs}")
        lines.extend(f"  | {line}" for line in _parameters(box))
        lines.extend(f"  {line}" for line in _outputs(box, found))
        lines.append("")
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
        opening, closing = _SHAPES[kind_of(box)]
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
    match box:
        case Source():
            yield from _source(box)
        case Filter():
            several = box.ports > 1
            yield from (f"{port}: {text}" if several else text for port, text in enumerate(box.predicates))
            if box.otherwise:
                yield f"{len(box.predicates)}: otherwise"
        case Map():
            yield box.columns
        case Drop():
            yield from _drop(box)
        case Union():
            pass
        case Aggregate():
            yield box.columns
            if box.by:
                yield f"by {', '.join(box.by)}"
            yield from _windows(box)
            if box.scale is not None:
                yield f"scale {box.scale}"
        case Join():
            yield box.on
            yield f"within {format_duration(box.within_us)}"


def _source(box: Source) -> Iterator[str]:
    if box.time is not None:
        yield f"time {box.time}, disorder {format_duration(box.disorder_us)}"
    if box.idle_us is not None:
        yield f"idle after {format_duration(box.idle_us)}"
    if box.silence_us is not None:
        yield f"closed after {format_duration(box.silence_us)} of silence"
    if box.producers:
        yield f"producers {', '.join(box.producers)}"
    if box.feed is not None:
        yield f"fed by {kind_name(box.feed)}"


def _drop(box: Drop) -> Iterator[str]:
    if box.predicate is not None:
        yield f"where {box.predicate}"
    elif box.fraction is not None:
        yield f"{box.fraction:g} of all, seed {box.seed}"


def _windows(box: Aggregate) -> Iterator[str]:
    if box.window_us is not None and box.every_us is not None:
        yield f"window {format_duration(box.window_us)} every {format_duration(box.every_us)}"
    if box.rows is not None:
        yield f"window of {box.rows} rows every {box.every_rows} rows"


def _outputs(box: Box, found: dict[Arrow, Schema]) -> Iterator[str]:
    """The schema, once: all ports of a box have the same."""
    schema = found.get(Arrow(box.name))
    if schema is not None:
        yield f"-> {format_schema(schema)}"


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

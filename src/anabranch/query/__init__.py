"""The query diagram: boxes and arrows as data, how to build, check, write, draw and cut them.

Uses sqlglot to read SQL and never Spark: a query is known to be right before a JVM starts.
"""

from __future__ import annotations

from anabranch.query.boxes import (
    Aggregate,
    Arrow,
    Box,
    Column,
    Dedup,
    Diagram,
    Drop,
    Filter,
    Join,
    Latest,
    Lookup,
    Map,
    Output,
    Python,
    Resample,
    Schema,
    Session,
    Slide,
    Source,
    Table,
    Tumble,
    Union,
    WSort,
    XSection,
)
from anabranch.query.builder import Query, Stream
from anabranch.query.draw import as_mermaid, as_text
from anabranch.query.files import load
from anabranch.query.graph import Stage, Target, all_origins, origins, sources_of, stages, union_hashes
from anabranch.query.schema import format_schema, parse_schema
from anabranch.query.schemas import schemas
from anabranch.query.text import diagram_from_dict, diagram_to_dict
from anabranch.query.validate import validate

__all__ = [
    "Aggregate",
    "Arrow",
    "Box",
    "Column",
    "Dedup",
    "Diagram",
    "Drop",
    "Filter",
    "Join",
    "Latest",
    "Lookup",
    "Map",
    "Output",
    "Python",
    "Query",
    "Resample",
    "Schema",
    "Session",
    "Slide",
    "Source",
    "Stage",
    "Stream",
    "Table",
    "Target",
    "Tumble",
    "Union",
    "WSort",
    "XSection",
    "all_origins",
    "as_mermaid",
    "as_text",
    "diagram_from_dict",
    "diagram_to_dict",
    "format_schema",
    "load",
    "origins",
    "parse_schema",
    "schemas",
    "sources_of",
    "stages",
    "union_hashes",
    "validate",
]

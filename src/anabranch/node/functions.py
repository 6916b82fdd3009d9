"""The functions of a node's Python boxes: all of them are there before Spark starts, and what they compute is theirs.

A node imports only what its own stages call. A digest of each module's source belongs to the state of the node: what
another version computed is another stream.
"""

from __future__ import annotations

from anabranch.errors import ConfigError, Problem, QueryError
from anabranch.functions import find
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Python
from anabranch.query.graph import boxes_of


def digests(part: AssignedQuery) -> dict[str, str]:
    """Per module that the stages of this part call, a digest of its source. QueryError names all that is missing."""
    computed = {box.name: box for stage in part.stages for box in boxes_of(part.diagram, stage)}
    found: dict[str, str] = {}
    problems = []
    for box in computed.values():
        if isinstance(box, Python):
            try:
                found[box.function.partition(":")[0]] = find(box.function).digest
            except ConfigError as error:
                problems.append(Problem(code="bad-function", box=box.name, message=error.message, remedy=error.remedy))
    if problems:
        raise QueryError(part.query, problems)
    return found

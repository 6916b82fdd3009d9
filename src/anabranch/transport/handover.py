"""What a host is given to run, on the wire and on disk: the same JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from anabranch.errors import ConfigError
from anabranch.model.assignment import QueryAssignment
from anabranch.transport.ports import HandOver

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def to_plain(given: HandOver) -> dict[str, Any]:
    return {
        "assignment": _form().dump_python(given.assignment, mode="json"),
        "query": dict(given.diagram),
    }


def from_plain(plain: Mapping[str, object]) -> HandOver:
    """ConfigError if it is none."""
    try:
        assignment, diagram = _form().validate_python(plain.get("assignment")), plain.get("query")
        if not isinstance(diagram, dict):
            raise ValueError("it has no query")
    except ValueError as error:
        raise ConfigError(
            f"The request does not hold an assignment: {error}.",
            remedy="Use anabranch deploy, and run the same version on all hosts.",
        ) from error
    return HandOver(assignment=assignment, diagram=diagram)


@cache
def _form() -> TypeAdapter[QueryAssignment]:
    """Made when it is first needed: most hosts are given nothing."""
    from pydantic import TypeAdapter

    return TypeAdapter(QueryAssignment)

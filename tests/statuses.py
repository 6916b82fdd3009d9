"""The status of a node for tests: what a test says of it, and of everything else something that says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from anabranch.model.node_state import NodeState
from anabranch.runtime.status import HostStatus, from_plain


def host_status(said: Mapping[str, Any] | None = None) -> HostStatus:
    """``said`` is a part of what ``anabranch status --json`` prints."""
    return from_plain(_filled(HostStatus, said or {}))


def _filled(kind: Any, said: Any) -> Any:
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        neutral = {each.name: _neutral(hints[each.name]) for each in fields(kind) if _is_needed(each)}
        return {**neutral, **{name: _filled(hints[name], value) for name, value in said.items()}}
    if get_origin(kind) in (Union, UnionType) and said is not None:
        return _filled(next(each for each in get_args(kind) if each is not NoneType), said)
    if get_origin(kind) is Mapping:
        return {name: _filled(get_args(kind)[1], value) for name, value in said.items()}
    if get_origin(kind) is tuple:
        return [_filled(get_args(kind)[0], value) for value in said]
    return said


def _is_needed(each: Any) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _neutral(kind: Any) -> Any:
    if is_dataclass(kind):
        return _filled(kind, {})
    if kind is NodeState:
        return NodeState.RUNNING
    match get_origin(kind):
        case None:
            return kind()
        case origin if origin is Literal:
            return get_args(kind)[0]
        case origin if origin in (Union, UnionType):
            return None
        case origin:
            return {} if origin is Mapping else []

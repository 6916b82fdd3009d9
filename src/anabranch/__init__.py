"""Anabranch: streaming queries as replicas on sites that are far apart, on Apache Spark.

    import anabranch as ab

    query = ab.Query("slow_paths")
    ping = query.source("ping", "source string, target string, rtt_ms double")
    query.output("slow", ping.filter("rtt_ms > 1000"))

    with ab.Node(query, state="state") as node:
        with ab.connect(node.address) as connection:
            connection.push("ping", [{"source": "a", "target": "b", "rtt_ms": 1500.0}])

Importing this loads next to nothing, because every Python worker of Spark does it: a name brings its module when it is
first used, and Spark starts with the first ``Node``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import (
    AnabranchError,
    ConfigError,
    DeploymentError,
    DiskFull,
    EngineError,
    InvariantBroken,
    Mistake,
    NodeUnreachable,
    NotLeading,
    OperatorError,
    Overloaded,
    Problem,
    PushRefused,
    QueryError,
    SessionExpired,
    StateError,
    StreamNotFound,
    UserError,
)
from anabranch.model.header import Kind
from anabranch.model.position import Position

if TYPE_CHECKING:
    from anabranch.node.node import Node
    from anabranch.node.settings import NodeSettings
    from anabranch.query import feeds, writers
    from anabranch.query.builder import Query, Stream
    from anabranch.query.translate import sql
    from anabranch.transport.session import (
        Connection,
        Connections,
        OrderedSubscription,
        Producer,
        RacingSubscription,
        Subscription,
        connect,
    )

__all__ = [
    "AnabranchError",
    "ConfigError",
    "Connection",
    "Connections",
    "DeploymentError",
    "DiskFull",
    "EngineError",
    "InvariantBroken",
    "Kind",
    "Mistake",
    "Node",
    "NodeSettings",
    "NodeUnreachable",
    "NotLeading",
    "OperatorError",
    "OrderedSubscription",
    "Overloaded",
    "Position",
    "Problem",
    "Producer",
    "PushRefused",
    "Query",
    "QueryError",
    "RacingSubscription",
    "SessionExpired",
    "StateError",
    "Stream",
    "StreamNotFound",
    "Subscription",
    "UserError",
    "connect",
    "feeds",
    "sql",
    "writers",
]

_LAZY = {
    "Connection": "anabranch.transport.session",
    "Connections": "anabranch.transport.session",
    "Node": "anabranch.node.node",
    "NodeSettings": "anabranch.node.settings",
    "OrderedSubscription": "anabranch.transport.session",
    "Producer": "anabranch.transport.session",
    "Query": "anabranch.query.builder",
    "RacingSubscription": "anabranch.transport.session",
    "Stream": "anabranch.query.builder",
    "Subscription": "anabranch.transport.session",
    "connect": "anabranch.transport.session",
    "feeds": "anabranch.query.feeds",
    "sql": "anabranch.query.translate",
    "writers": "anabranch.query.writers",
}
"""Where the names are that a worker of Spark does not need."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LAZY[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)

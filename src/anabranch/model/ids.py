"""What things are called outside of their query: the ids of queries, streams and replicas, with one text form each.

Inside a query a stream or a stage goes by its own name. A host runs any number of queries, so wherever a name leaves
its query (on the wire, in Spark's pools and journals, in status) it carries the query:

    query      paths
    stream     paths/slow        paths/box:pairs        paths/ping.late
    replica    paths/pairs@boston#1: a stage of a query on a host, and how often it was begun anew there
    journal    paths/pairs/ping: a stream as a stage reads it, for Spark. Another stage of the host may read another
               copy of it

No name has a slash, an @ or a #, so each form can be read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

from anabranch.errors import ConfigError

QueryId = NewType("QueryId", str)
"""The name of a query, which is its text form, too."""

NO_QUERY: Final = QueryId("")
"""Where nobody says of which query a stream is."""

FIRST_GENERATION: Final = 1
"""That of every replica that a deployment file names."""


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """A stream of a query: a source, its late rows, an output, or an internal stream."""

    query: QueryId
    stream: str

    def __str__(self) -> str:
        return f"{self.query}/{self.stream}"

    @classmethod
    def parse(cls, text: str) -> StreamId:
        query, slash, stream = text.partition("/")
        if not (query and slash and stream):
            raise ConfigError(f"{text!r} is not the id of a stream.", remedy="Write query/stream.")
        return cls(QueryId(query), stream)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """A stage of a query on a host. A replica that begins anew, without what it had, is another generation."""

    query: QueryId
    stage: str
    host: str
    generation: int = FIRST_GENERATION

    def __str__(self) -> str:
        return f"{self.query}/{self.stage}@{self.host}#{self.generation}"

    @classmethod
    def parse(cls, text: str) -> ReplicaId:
        query, _, rest = text.partition("/")
        stage, _, rest = rest.partition("@")
        host, _, generation = rest.rpartition("#")
        if not (query and stage and generation.isdecimal()):
            raise ConfigError(f"{text!r} is not the id of a replica.", remedy="Write query/stage@host#generation.")
        return cls(QueryId(query), stage, host, int(generation))


@dataclass(frozen=True, slots=True, order=True)
class JournalId:
    """What a stage reads of a stream: the log of a stage beside it, or the journal of its inlet."""

    query: QueryId
    stage: str
    stream: str

    def __str__(self) -> str:
        return f"{self.query}/{self.stage}/{self.stream}"

    @classmethod
    def parse(cls, text: str) -> JournalId:
        query, stage, stream = [*text.split("/"), "", ""][:3]
        if not stream or text.count("/") != 2:
            raise ConfigError(f"{text!r} is not the id of a journal.", remedy="Write query/stage/stream.")
        return cls(QueryId(query), stage, stream)


def named_in(query: QueryId, name: str) -> str:
    """The text of a stream's id, once it is known of which query it is; ``name`` may carry that already."""
    return str(StreamId(query, query_of(name)[1])) if query else name


def query_of(text: str) -> tuple[QueryId | None, str]:
    """The query that a name carries, if it does, and the name inside of it."""
    query, slash, name = text.partition("/")
    return (QueryId(query), name) if slash else (None, text)

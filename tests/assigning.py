"""What a host runs of a query, said in a few words: for tests that make hosts by hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from anabranch.model.assignment import AssignedEntry, AssignedReplica, AssignedWriter, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.model.techniques import Technique
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.graph import stages as all_stages

Addresses = Mapping[str, str]

TAKEOVER_US = 2_000_000
"""As short as tests can wait for, and longer than an answer takes."""


def assigned(
    diagram: Diagram,
    host: str,
    *,
    stages: Collection[str] = (),
    entries: Collection[str] = (),
    feeds: Collection[str] = (),
    feed_hosts: Sequence[str] = (),
    writes: Collection[str] = (),
    peers: Mapping[str, Addresses] | None = None,
    upstream: Mapping[str, Addresses] | None = None,
    readers: Mapping[str, Sequence[str]] | None = None,
    siblings: Addresses | None = None,
    compared: Mapping[str, Addresses] | None = None,
    shares_tables: Addresses | None = None,
    technique: Technique = Technique.RACE,
) -> AssignedQuery:
    """``upstream`` are the streams that come from elsewhere, with those that have them. What is read and is not there
    is made on the host itself. ``feed_hosts`` are all that have the same feeds, if there are several."""
    upstream, peers, compared = upstream or {}, peers or {}, compared or {}
    named = [*upstream.values(), *peers.values(), *compared.values(), siblings or {}, shares_tables or {}]
    return AssignedQuery(
        diagram,
        QueryAssignment(
            query=QueryId(diagram.name),
            host=host,
            replicas=tuple(
                AssignedReplica(
                    stage=stage.name,
                    inputs={stream: tuple(upstream.get(stream, {host: ""})) for stream in stage.inputs},
                    peers=tuple(siblings or ()),
                )
                for stage in all_stages(diagram)
                if stage.name in stages
            ),
            entries=tuple(
                AssignedEntry(
                    source=source,
                    peers=tuple(peers.get(source, ())),
                    feeds=source in feeds,
                    feed_hosts=tuple(feed_hosts) if source in feeds else (),
                    takeover_us=TAKEOVER_US,
                )
                for source in entries
            ),
            writers=tuple(AssignedWriter(output=output, made_on=(host,)) for output in writes),
            readers={stream: tuple(names) for stream, names in (readers or {}).items()},
            compared={stream: tuple(others) for stream, others in compared.items()},
            shares_tables=tuple(shares_tables or ()),
            technique=technique,
            addresses={host: ""} | {name: address for addresses in named for name, address in addresses.items()},
        ),
    )

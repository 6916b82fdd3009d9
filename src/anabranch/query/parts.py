"""What a host runs of a query, cut into the parts that live apart: each has its directory, its life and its readers.

    entry points with peers         learn from each other when they lost their disk (``core.shared_lane``)
    stages that the same hosts run  a *replica*: rebuilt from any of these hosts (``core.rebuild``)
    writers of outputs from afar    read all copies, and have no peer

A part can be begun anew while the others of its host go on, because it reads nothing of theirs directly: a stream that
another part makes comes in through an inlet, from all hosts that have a copy, this one among them. So a replica on
an entry point reads what a replica elsewhere reads, under the same rules, and one can take the other's place.

What has no peers is never begun anew, so it stays together: stages that no other host runs read the logs of entry
points without peers directly, as a query does that runs on one host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from anabranch.model.assignment import AssignedEntry, AssignedReplica, AssignedWriter
from anabranch.model.techniques import Technique
from anabranch.query.assigned import AssignedQuery

_ENTRY: Final = "entry"
_WRITERS: Final = "writers"


def parts(whole: AssignedQuery) -> tuple[AssignedQuery, ...]:
    """The parts of what a host runs, entry points first, then in the order of flow."""
    given = whole.assignment
    replicas: dict[frozenset[str], list[AssignedReplica]] = {}
    for replica in given.replicas:
        replicas.setdefault(frozenset(replica.peers), []).append(replica)
    has_lonely_stages = frozenset() in replicas
    beside = tuple(each for each in given.entries if has_lonely_stages and not each.peers)
    apart = tuple(each for each in given.entries if each not in beside)
    found = [_part(whole, entries=apart)] if apart else []
    for peers, stages in replicas.items():
        found.append(_part(whole, stages, () if peers else beside))
    made = {output.output for part in found for output in part.assignment.writers}
    from_afar = tuple(each for each in given.writers if each.output not in made)
    if from_afar:
        found.append(_part(whole, writers=from_afar))
    return tuple(found) or (whole,)


def _part(
    whole: AssignedQuery,
    replicas: Sequence[AssignedReplica] = (),
    entries: tuple[AssignedEntry, ...] = (),
    writers: tuple[AssignedWriter, ...] = (),
) -> AssignedQuery:
    """With the writers of the outputs that it makes, and all else that concerns the streams that it makes."""
    given = whole.assignment
    bare = replace(given, replicas=tuple(replicas), entries=entries, writers=())
    alone = AssignedQuery(whole.diagram, bare)
    part = replace(
        bare,
        part=replicas[0].stage if replicas else "",
        writers=writers or tuple(each for each in given.writers if each.output in alone.made),
        readers={stream: readers for stream, readers in given.readers.items() if stream in alone.made},
        compared={stream: hosts for stream, hosts in given.compared.items() if stream in alone.made},
        shares_tables=given.shares_tables if replicas else (),
        technique=given.technique if alone.siblings else Technique.RACE,
    )
    return AssignedQuery(whole.diagram, part, whole.directory)


def part_name(part: AssignedQuery) -> str:
    """What a part is called in the status of its host: by its first stage, unless that is called like another part."""
    stage = part.assignment.part
    if not stage:
        return _ENTRY if part.entries else _WRITERS
    return f"replica:{stage}" if stage in (_ENTRY, _WRITERS) else stage


def reads(whole: AssignedQuery) -> dict[str, tuple[str, ...]]:
    """Per stream that comes in through inlets, the hosts that it is read from."""
    return {stream: tuple(copies) for part in parts(whole) for stream, copies in part.upstream.items()}


def inlet_names(cut: Sequence[AssignedQuery]) -> dict[tuple[str, str], str]:
    """What the inlets of a host are called in its status, by reader and stream: by their stream, as long as only one
    part reads it."""
    names: dict[tuple[str, str], str] = {}
    for part in cut:
        for stream in part.upstream:
            names[part.reader, stream] = stream if stream not in names.values() else f"{stream}@{part.assignment.part}"
    return names

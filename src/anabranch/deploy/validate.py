"""Everything that is wrong with a deployment, at once and before anything starts.

Nodes first, then each query against them, then links. What follows from a mistake that was told is not told again.
Whether a port is free, or another node runs the same version, only a start can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.deploy import links
from anabranch.deploy.addresses import Address, parse_address
from anabranch.deploy.description import Description, Draft, load
from anabranch.deploy.mistakes import Report
from anabranch.deploy.query_checks import check_query, names_of
from anabranch.errors import ConfigError, Mistake
from anabranch.model.names import is_name
from anabranch.query.boxes import Diagram
from anabranch.query.problems import candidates

_NAME_REMEDY = "Names begin with a letter and have letters, digits, _ and -, at most 64."


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A file with the queries that it names, and all that is wrong with both."""

    path: Path
    description: Description
    diagrams: Mapping[str, Diagram]
    """By name; those that could be read."""
    mistakes: tuple[Mistake, ...]


def check_file(path: Path | str) -> Checked:
    """Reads a deployment file and its queries; ConfigError if it is not even TOML."""
    return check_draft(load(Path(path)), Path(path))


def check_draft(draft: Draft, path: Path) -> Checked:
    """What was read, with all that is wrong with it; ``path`` is the file, which other paths are relative to."""
    description, report = draft.description, draft.report
    _check_nodes(description, path.parent, report)
    diagrams: dict[str, Diagram] = {}
    for name in description.queries:
        diagram = check_query(name, description, path.parent, report)
        if diagram is not None:
            diagrams[name] = diagram
    _check_tables(description, diagrams, report)
    _check_links(description, report)
    return Checked(path=path, description=description, diagrams=diagrams, mistakes=tuple(report.mistakes))


def _check_nodes(description: Description, base: Path, report: Report) -> None:
    if not description.nodes:
        report.add("missing-key", ("nodes",), "There are no nodes.", 'Add one: [nodes.a] address = "127.0.0.1:7700".')
    addresses: dict[tuple[str, int], str] = {}
    states: dict[tuple[str, Path], str] = {}
    for name, node in description.nodes.items():
        place = ("nodes", name)
        if not is_name(name):
            report.add("bad-name", place, f"A node cannot be called {name!r}.", _NAME_REMEDY)
        if node.site and not is_name(node.site):
            report.add("bad-name", (*place, "site"), f"A site cannot be called {node.site!r}.", _NAME_REMEDY)
        address = _check_address(name, node.address, report)
        if address is None:
            continue
        taken = addresses.setdefault((address.machine, address.port), name)
        if taken != name:
            message = f"{node.address} is also the address of {taken}."
            report.add("address-taken", (*place, "address"), message, "Give each node its own port.")
        if node.state is not None:
            other = states.setdefault((address.machine, (base / node.state).resolve()), name)
            if other != name:
                message = f"{node.state} is also the state directory of {other}."
                report.add(
                    "state-shared", (*place, "state"), message, "Nodes cannot share a directory: give each its own."
                )
    _check_sites(description, report)


def _check_address(name: str, text: str, report: Report) -> Address | None:
    place = ("nodes", name, "address")
    if not text:
        report.add("missing-key", place, f"The node {name} has no address.", 'Add address = "host:port".')
        return None
    try:
        return parse_address(text)
    except ConfigError as error:
        report.add("bad-address", place, error.message, error.remedy)
        return None


def _check_sites(description: Description, report: Report) -> None:
    """A link names a node or a site, so one name may not mean two things."""
    for site, nodes in links.sites(description).items():
        if site in description.nodes and nodes != (site,):
            culprit = next(name for name in nodes if name != site)
            message = f"The site {site!r} has the name of a node, but contains other nodes: {', '.join(nodes)}."
            report.add("site-unclear", ("nodes", culprit, "site"), message, "Rename the site.")


def _check_tables(description: Description, diagrams: Mapping[str, Diagram], report: Report) -> None:
    """What a node says of tables is about those of its queries."""
    users: dict[str, list[str]] = {}
    for name, query in description.queries.items():
        for node in dict.fromkeys(names_of(query)):
            users.setdefault(node, []).append(name)
    for node, queries in users.items():
        if node not in description.nodes or not all(query in diagrams for query in queries):
            continue
        known = [table.name for query in queries for table in diagrams[query].tables]
        for name in description.nodes[node].tables:
            if name not in known:
                several = len(queries) > 1
                having = f"queries {' and '.join(queries)} have" if several else f"query {queries[0]} has"
                message = f"The {having} no table {name!r}."
                remedy = candidates(name, known) or "Leave it out."
                report.add("unknown-table", ("nodes", node, "tables", name), message, remedy)


# --- links -----------------------------------------------------------------------------------------------------------


def _check_links(description: Description, report: Report) -> None:
    of_site = links.sites(description)
    taken: dict[tuple[links.Pair, int], int] = {}
    for index, link in enumerate(description.links):
        place = ("links", index)
        _check_properties(description, index, report)
        if not _ends_are_known(description, index, report):
            continue
        pairs = list(links.pairs(link, description, of_site))
        if not pairs:
            message = f"There is no link between {' and '.join(link.between)}: they are the same node."
            report.add("bad-link", (*place, "between"), message, "Name two nodes, two sites, or a site twice.")
        for pair in pairs:
            other = taken.setdefault((pair, links.rank(link, description)), index)
            if other != index:
                message = f"{' and '.join(pair)} have a link already: links[{other}]."
                remedy = "Keep one of them. A link between nodes overrides one between their sites."
                report.add("link-twice", (*place, "between"), message, remedy)
                break


def _check_properties(description: Description, index: int, report: Report) -> None:
    link = description.links[index]
    properties = (link.delay_us, link.jitter_us, link.rate_bytes_s)
    if properties == (None, None, None) and not report.told_below(("links", index)):
        message = "The link has no delay, jitter or rate."
        report.add("bad-link", ("links", index), message, "Add at least one of them, or remove the link.")
    if (link.jitter_us or 0) > (link.delay_us or 0) and not report.told_below(("links", index, "delay")):
        message = "The jitter is larger than the delay: some messages would arrive before they were sent."
        report.add("bad-link", ("links", index, "jitter"), message, "Raise the delay, or lower the jitter.")


def _ends_are_known(description: Description, index: int, report: Report) -> bool:
    link, place = description.links[index], ("links", index, "between")
    if len(link.between) != 2:
        message = f"A link has two ends, not {len(link.between)}."
        report.add("bad-link", place, message, 'Write between = ["a", "b"].')
        return False
    known = {**description.nodes, **links.sites(description)}
    unknown = [name for name in link.between if name not in known]
    for name in unknown:
        report.add("unknown-node", place, f"There is no node or site {name!r}.", candidates(name, known))
    return not unknown

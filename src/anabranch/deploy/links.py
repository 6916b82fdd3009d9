"""Which pairs of nodes a link of a deployment file is about.

A link is written between two nodes, two sites, or a node and a site. The one that names more nodes wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from anabranch.deploy.description import Description, LinkTable

Pair = tuple[str, str]
"""Two nodes, in the order of their names: a link behaves the same both ways."""


def sites(description: Description) -> dict[str, tuple[str, ...]]:
    """The nodes of each site. A node that names none is a site of its own."""
    found: dict[str, tuple[str, ...]] = {}
    for name, node in description.nodes.items():
        found[node.site or name] = (*found.get(node.site or name, ()), name)
    return found


def pairs(link: LinkTable, description: Description, of_site: Mapping[str, tuple[str, ...]]) -> Iterator[Pair]:
    """The pairs of nodes that a link between two known names is about, each once."""
    first, second = ((name,) if name in description.nodes else of_site[name] for name in link.between)
    yield from sorted({(min(a, b), max(a, b)) for a, b in product(first, second) if a != b})


def rank(link: LinkTable, description: Description) -> int:
    """How many nodes a link names: it goes before links that name fewer."""
    return sum(name in description.nodes for name in link.between)


def resolve(description: Description) -> dict[Pair, LinkTable]:
    """The one link of each pair of nodes that has any."""
    of_site = sites(description)
    found: dict[Pair, LinkTable] = {}
    for link in sorted(description.links, key=lambda each: rank(each, description)):
        found |= dict.fromkeys(pairs(link, description, of_site), link)
    return dict(sorted(found.items()))

"""How mistakes in a deployment file are told: the path of the field, what is wrong, and what to change.

Every code that a user can meet is listed here with its meaning, so that documentation and tests have one place to look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from anabranch.errors import Mistake, check

CODES: Final = {
    "address-taken": "two nodes with the same address",
    "bad-address": "an address that a node cannot use",
    "bad-fault": "a fault script step without a known fault, or with missing or extra keys",
    "bad-feed": "a feed that cannot run on several nodes, or that the source does not have",
    "bad-link": "a link that does not connect two nodes, or whose properties contradict each other",
    "bad-mode": "a mode that does not exist, or not yet",
    "bad-name": "a name with characters that names cannot contain",
    "bad-technique": "a technique that does not exist, or that this query does not allow",
    "bad-value": "a duration or a rate that cannot be read",
    "entry-alone": "a source with several entry points whose rows carry no numbers",
    "link-twice": "two links for the same pair of nodes",
    "missing-key": "a required key that is missing",
    "no-entry-point": "a source that no node accepts rows for",
    "node-cycle": "nodes that wait for each other's results in a cycle",
    "node-twice": "a node that is listed twice where every entry must be a different node",
    "not-here": "an address that does not belong to this machine, on which all nodes should start",
    "placed-nowhere": "a box that no node runs",
    "port-taken": "an address that another process already listens on",
    "query": "a problem of the query itself, or of its file",
    "query-name": "a query that has another name in its own file",
    "several-copies": "more than one copy in a mode that allows only one",
    "site-unclear": "a site with the name of a node, but with other nodes in it",
    "state": "a state directory that the node cannot use",
    "state-shared": "two nodes of one machine with the same state directory",
    "table": "a table that a node cannot read, or whose contents differ between nodes",
    "unknown-box": "a box that the query does not have",
    "unknown-key": "an unknown key",
    "unknown-node": "a node that the file does not have",
    "unknown-output": "an output that the query does not have, or that has no writers",
    "unknown-producer": "a producer that the source does not have",
    "unknown-source": "a source that the query does not have",
    "unknown-table": "a table that the query does not have",
    "writer-nowhere": "an output with writers and several copies, where no node is chosen to write",
    "wrong-type": "a value of the wrong type",
}

Path = tuple[str | int, ...]
"""The keys that lead to a field; numbers count the elements of a list from 0."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def path_text(path: Path) -> str:
    """``queries.q.place.u1``, ``links[0].delay``; keys are quoted where TOML wants it."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False))
    return text


class Report:
    """Collects mistakes. What lies at or below a place that was told before is not told again: one mistake is one."""

    def __init__(self) -> None:
        self._told: Final[set[Path]] = set()
        self.mistakes: Final[list[Mistake]] = []

    def add(self, code: str, path: Path, message: str, remedy: str = "") -> None:
        check(code in CODES, f"There is no code {code!r} of a deployment.")
        mistake = Mistake(code=code, path=path_text(path), message=message, remedy=remedy)
        if not self.is_told(path) and mistake not in self.mistakes:
            self.mistakes.append(mistake)

    def tell(self, *paths: Path) -> None:
        """These places have been told: what follows from a mistake there is none of its own."""
        self._told.update(paths)

    def is_told(self, path: Path) -> bool:
        return any(path[:length] in self._told for length in range(len(path) + 1))

    def told_below(self, path: Path) -> bool:
        """Whether something at, above or below this place was told."""
        return self.is_told(path) or any(told[: len(path)] == path for told in self._told)


def twice(names: Iterable[str]) -> list[str]:
    """The names that come more than once, each once."""
    names = list(names)
    return [name for index, name in enumerate(names) if names.index(name) == index and names.count(name) > 1]

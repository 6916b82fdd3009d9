"""The pages for users as data: their headings, their code blocks and what comments before a block say of it.

A comment right before a block tells the tests what it is:

    <!-- needs: node -->          it talks to a node at 127.0.0.1:7000 that runs examples/slow_paths.py
    <!-- needs: node, PACKAGE --> it uses a package, too, that Anabranch itself does not need
    <!-- codes: a, b -->          on the page of errors: it causes these codes, not that of its section alone
    <!-- tested by: FILE -->      on the page of errors, in place of a block: the test that causes the code
    <!-- faults for: FILE -->     it is a fault script for this deployment
    <!-- not run: REASON -->      it cannot be run by a test; the test counts these, so that none comes unseen
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NODE = "127.0.0.1:7000"
"""Where the pages' node is. Tests put the address of theirs there."""

_COMMENT = re.compile(r"<!-- ([a-z ]+): (.+) -->")
_FENCE = re.compile(r"( *)```(\w*)$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One code block: where it is, its language, its text and its comments."""

    page: Path
    line: int
    language: str
    text: str
    notes: dict[str, str]

    @property
    def needs(self) -> list[str]:
        return [each.strip() for each in self.notes.get("needs", "").split(",") if each.strip()]

    @property
    def is_run(self) -> bool:
        return "not run" not in self.notes

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    return list(_blocks(page))


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    notes: dict[str, str] = {}
    start = 0
    while start < len(lines):
        fence, comment = _FENCE.match(lines[start]), _COMMENT.fullmatch(lines[start].strip())
        if fence is not None:
            end = next(at for at in range(start + 1, len(lines)) if lines[at].strip() == "```")
            text = "\n".join(line.removeprefix(fence[1]) for line in lines[start + 1 : end])
            yield Block(page=page, line=start + 1, language=fence[2], text=text + "\n", notes=notes)
            start = end
        if comment is not None:
            notes = {**notes, comment[1]: comment[2]}
        elif lines[start].strip():
            notes = {}
        start += 1


def anchors(page: Path) -> set[str]:
    """What a link may name behind ``#``, as GitHub and the site both make it from a heading."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def documented_keys(of: str) -> set[str]:
    """The keys of JSON that the page of the command line lists: of ``status --json``, or of a stage in it."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    (row,) = re.findall(rf"^\| `?{of}`? \| (.*?) \|$", page, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))

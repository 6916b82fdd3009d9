"""Every code block of README and docs is run: Python is executed, queries and deployments are validated, commands are
parsed.

What talks to a node runs in ``tests/integration/test_docs.py``; the page of errors in ``test_errors.py``.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.deploy.fault_script import load_script
from anabranch.deploy.plan import load_plan
from anabranch.deploy.validate import check_file
from anabranch.query.draw import as_text
from tests.unit.docs.commands import commands_in, parse
from tests.unit.docs.pages import PAGES, ROOT, Block, all_blocks, anchors, blocks

ERRORS = ROOT / "docs" / "reference" / "errors.md"
LANGUAGES = {"python", "yaml", "toml", "sh", "text", "sql", "json"}
NOT_RUN = 0
"""Blocks that no test can run. A new one must be counted here, and say why in a comment."""

OTHERS = set("echo kill tail jq cat cd pip python export . docker spark-class spark-submit ls".split())
"""Programs that are not ours, as they appear in the pages."""

WITH_PYTHON = [page for page in PAGES if page != ERRORS and any(each.language == "python" for each in blocks(page))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_block_has_a_language_and_what_is_not_run_is_counted() -> None:
    every = [block for page in PAGES for block in blocks(page)]
    assert [str(block) for block in every if block.language not in LANGUAGES] == []
    assert sum(not block.is_run for block in every) == NOT_RUN
    assert [str(block) for block in every if block.needs and "node" not in block.needs] == [], "no test would run these"


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_runs_and_its_queries_are_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page are one program, in their order; what needs a node is left to the test that has one."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.language == "python" and block.is_run and not block.needs:
            exec(compile(block.text, str(block), "exec"), names)
            for query in [each for each in names.values() if isinstance(each, ab.Query)]:
                assert [each for each in query.validate() if each.code not in ("no-output", "unused-box")] == [], block
    for query in [each for each in names.values() if isinstance(each, ab.Query)]:
        assert query.validate() == []


@pytest.mark.parametrize("block", [each for each in all_blocks("yaml") if each.page != ERRORS], ids=str)
def test_yaml_is_a_valid_query(block: Block) -> None:
    assert ab.Query.from_yaml(block.text).validate() == []


@pytest.mark.parametrize("block", [each for each in all_blocks("toml") if "faults for" in each.notes], ids=str)
def test_toml_is_a_valid_fault_script(block: Block, tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(block.text)
    assert load_script(tmp_path / "faults.toml", load_plan(ROOT / block.notes["faults for"]))


@pytest.mark.parametrize("block", [each for each in all_blocks("toml") if "faults for" not in each.notes], ids=str)
def test_toml_is_a_valid_deployment_of_the_examples(block: Block, tmp_path: Path) -> None:
    for query in (ROOT / "examples").glob("*.yaml"):
        shutil.copy(query, tmp_path)
    (tmp_path / "deployment.toml").write_text(block.text)
    assert check_file(tmp_path / "deployment.toml").mistakes == ()


@pytest.mark.parametrize("block", all_blocks("sh"), ids=str)
def test_commands_have_arguments_that_the_program_takes(block: Block) -> None:
    for words in commands_in(block.text):
        program = words[0].rpartition("/")[2]
        if program == "anabranch":
            parse(words[1:])
        elif program == "make":
            assert set(words[1:]) <= _make_targets(), words
        else:
            assert program in OTHERS, words


def test_a_wrong_command_would_be_found() -> None:
    for wrong in (
        "anabranch run q.py --fast",
        "anabranch lookup",
        "anabranch subscribe",
        "anabranch source open a:1 ping",
    ):
        with pytest.raises(Exception, match=r"(?i)no such|missing|lookup|open"):
            parse(shlex.split(wrong)[1:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(file), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_are_there(page: Path) -> None:
    for path in re.findall(r"`((?:tests|src|examples|scripts)/[\w/.]+\.\w+)`", page.read_text()):
        assert (ROOT / path).exists(), path


def test_the_tutorial_shows_what_explain_shows() -> None:
    names: dict[str, Any] = {}
    tutorial = blocks(ROOT / "docs" / "tutorial.md")
    exec(next(block.text for block in tutorial if block.language == "python"), names)
    assert as_text(names["q"].diagram()) in [block.text for block in tutorial if block.language == "text"]


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

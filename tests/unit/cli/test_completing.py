"""What the Tab key offers, asked as the shells ask: with variables, and by bash with the script it gets."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from anabranch.cli import completing, main
from anabranch.cli.completing import QUERY_SUFFIXES, join_words
from anabranch.errors import ConfigError
from anabranch.query.files import load
from tests.unit.cli.conftest import TalkingNode
from tests.waiting import HANG_S

HEAVY = {"pyspark", "pyarrow", "pandas", "matplotlib", "sqlglot", "numpy"}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with queries, rows, and other things."""
    for name in (
        "query.py",
        "query.yaml",
        "rows.csv",
        "rows.jsonl",
        "notes.txt",
        ".hidden.py",
        "one/a.py",
        "one/b.yml",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fish(line: str) -> list[str]:
    """What fish would offer at the end of the line; the words without what is said of them."""
    environment = {
        "_ANABRANCH_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
    return [offer.partition("\t")[0] for offer in ask(environment).splitlines() if offer]


def ask(environment: dict[str, str], *arguments: str) -> str:
    """In this process: to start another for each question takes longer than to answer it."""
    said, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["anabranch", *arguments]),
        patch.object(completing, "ANSWER_S", HANG_S),
        redirect_stdout(said),
        redirect_stderr(errors),
        pytest.raises(SystemExit),
    ):
        main()
    assert errors.getvalue() == ""
    return said.getvalue()


def test_verbs_and_options_and_choices() -> None:
    assert fish("anabranch su") == ["subscribe"]
    assert fish("anabranch source ") == ["close"]
    assert "--install-completion" in fish("anabranch --")
    assert fish("anabranch subscribe a:1 s --fo") == ["--format", "--follow"]
    assert fish("anabranch subscribe a:1 s --format ") == ["table", "jsonl"]
    assert fish("anabranch subscribe a:1 s --from ") == ["start", "end"]


def test_zsh_is_told_what_each_is() -> None:
    told = ask({"_ANABRANCH_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "anabranch pre"})
    assert told.strip() == """_arguments '*: :(("prepare":"Make Spark start in about half the time."))'"""


def test_files_that_a_verb_can_read(shelf: Path) -> None:
    assert fish("anabranch run ") == ["one/", "query.py", "query.yaml"]
    assert fish("anabranch explain query.y") == ["query.yaml"]
    assert fish("anabranch push a:1 s r") == ["rows.csv", "rows.jsonl"]
    assert fish("anabranch run on") == ["one/a.py", "one/b.yml"], "the only directory is entered"
    assert fish(f"anabranch run {shelf}/one/b") == [f"{shelf}/one/b.yml"]
    assert fish("anabranch run .h") == [".hidden.py"]
    assert fish("anabranch run absent/") == []


def test_the_suffixes_of_queries_are_those_that_can_be_loaded() -> None:
    with pytest.raises(ConfigError) as refused:
        load("query.txt")
    assert re.findall(r"\.\w+", refused.value.remedy) == list(QUERY_SUFFIXES)


def test_what_must_be_quoted_is_left_to_the_shell(shelf: Path) -> None:
    (shelf / "query two.py").touch()
    assert fish("anabranch run q") == []


def test_streams_of_a_node_that_answers(node: TalkingNode, address: str) -> None:
    assert fish(f"anabranch subscribe {address} ") == ["ping", "ping.late"]
    assert fish(f"anabranch subscribe {address} ping.") == ["ping.late"]
    assert fish(f"anabranch push {address} ") == ["ping"], "only a source takes rows"
    assert fish(f"anabranch source close {address} ") == ["ping"]
    assert fish(f"anabranch reader forget {address} ") == ["ping", "ping.late"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:"])
def test_without_a_node_there_are_no_streams_and_no_errors(address: str) -> None:
    assert fish(f"anabranch subscribe {address} ") == []


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["anabranch", "push", "a", ":", "1", ""], ["anabranch", "push", "a:1", ""]),
        (["anabranch", "push", "a", ":", "1"], ["anabranch", "push", "a:1"]),
        (["anabranch", "push", "a", ":"], ["anabranch", "push", "a:"]),
        (["anabranch", "x", "--from", "=", "st"], ["anabranch", "x", "--from=st"]),
        (["anabranch", "run", "q.py"], ["anabranch", "run", "q.py"]),
    ],
)
def test_words_that_bash_has_cut_are_joined(pieces: list[str], words: list[str]) -> None:
    environment = {
        "_ANABRANCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join([*pieces, "what", "follows"]),
        "COMP_CWORD": str(len(pieces) - 1),
    }
    join_words(environment)
    assert environment["COMP_WORDS"].split("\n") == words
    assert environment["COMP_CWORD"] == str(len(words) - 1)


def test_bash_completes_with_the_script_it_is_given(tmp_path: Path, shelf: Path, address: str) -> None:
    program = tmp_path / "bin" / "anabranch"
    program.parent.mkdir()
    code = f"from anabranch.cli import completing, main; completing.ANSWER_S = {HANG_S}; main()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    host, port = address.split(":")
    script = f"""
        eval "$(_ANABRANCH_COMPLETE=source_bash anabranch)"
        offer() {{
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            _anabranch_completion anabranch
            echo "${{COMPREPLY[*]}}"
        }}
        offer anabranch vers
        offer anabranch run query.y
        offer anabranch subscribe {host} : {port} ping.
        offer anabranch subscribe {host} : {port} ping --from = e
        complete -p anabranch
    """
    path = f"{program.parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (run.stdout.splitlines(), run.stderr) == (
        ["version", "query.yaml", "ping.late", "end", "complete -o default -F _anabranch_completion anabranch"],
        "",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    script = ask({"_ANABRANCH_COMPLETE": f"source_{shell}"})
    assert f"_ANABRANCH_COMPLETE=complete_{shell}" in script


def test_bash_installs_it_once(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -c "from anabranch.cli import main; main()" --install-completion; true'
    for _ in range(2):
        subprocess.run(
            ["bash", "-c", command], env=os.environ | {"HOME": str(tmp_path)}, check=True, capture_output=True
        )
    script = tmp_path / ".bash_completions" / "anabranch.sh"
    assert "complete_bash" in script.read_text()
    assert (tmp_path / ".bashrc").read_text().count(str(script)) == 1


def test_the_tab_key_loads_nothing_heavy(shelf: Path) -> None:
    code = f"import sys, atexit\natexit.register(lambda: sys.stderr.write(str({HEAVY!r} & set(sys.modules))))\n"
    code += "from anabranch.cli import main\nmain()"
    environment = {
        "_ANABRANCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "anabranch\nrun\n",
        "COMP_CWORD": "2",
    }
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert (run.stdout.split(), run.stderr) == (["one/", "query.py", "query.yaml"], "set()")

"""JSON for scripts: standard output is one object with the keys that docs/reference/cli.md lists, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli import prepare
from anabranch.engine import archive
from anabranch.query.catalog import KINDS
from tests.unit.cli.conftest import Cli
from tests.unit.docs.pages import ROOT
from tests.unit.docs.pages import documented_keys as documented

EXAMPLE = ROOT / "examples" / "slow_paths.yaml"


def only_object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def test_version(cli: Cli) -> None:
    found = only_object(cli("version", "--json").stdout)
    assert found.keys() == documented("version --json")
    assert re.fullmatch(r"\d+\.\d+.*", found["pyspark"])


def test_operators(cli: Cli) -> None:
    found = only_object(cli("operators", "--json").stdout)["operators"]
    assert list(found) == list(KINDS)
    assert found["dedup"] == {
        "meaning": "a tuple passes unless one of the same key passed less than the horizon before it",
        "class": "deterministic",
        "state": "the last tuple that passed of each key, for the horizon",
        "keys": ["input", "by", "horizon"],
    }


def test_operators_are_a_table_with_a_line_for_each_box(cli: Cli) -> None:
    lines = [line.split()[0] for line in cli("operators").stdout.splitlines() if line[:1].isalpha()]
    assert [line for line in lines if line in KINDS] == list(KINDS)


def test_explain_of_a_query_that_can_run(cli: Cli) -> None:
    result = cli("explain", str(EXAMPLE), "--json")
    found = only_object(result.stdout)
    assert result.exit_code == 0
    assert found.keys() == documented("explain --json")
    assert found["problems"] == []
    assert found["diagram"]["outputs"] == {"network_problems": "blame", "slow_per_target": "per_target"}
    assert found["columns"]["blame.1"] == found["columns"]["blame"]
    assert found["columns"]["per_target"] == {"target": "string", "n": "bigint", "rtt_ms": "double"}


def test_explain_of_a_query_with_problems(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "query.yaml"
    file.write_text("query: q\nboxes:\n  - source: {name: s, schema: 'a int', idle: soon}\noutputs: {o: s}\n")
    result = cli("explain", str(file), "--json")
    found = only_object(result.stdout)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[query]: ")
    assert [problem.keys() for problem in found["problems"]] == [{"code", "box", "message", "remedy", "place"}]
    assert (found["problems"][0]["code"], found["diagram"]) == ("bad-duration", None)


def test_explain_warns_of_a_function_that_is_not_here(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "query.yaml"
    box = "{name: b, input: s, function: 'not_here:f', columns: n int}"
    file.write_text(
        f"query: q\nboxes:\n  - source: {{name: s, schema: 'a int'}}\n  - python: {box}\noutputs: {{o: b}}\n"
    )
    result = cli("explain", str(file), "--json")
    found = only_object(result.stdout)
    assert result.exit_code == 0
    (warning,) = found["warnings"]
    assert warning.startswith("b: not_here:f: there is no module 'not_here'. Put not_here.py beside the query file")
    assert found["python"]["b"].startswith("not_here:f runs in Spark's Python workers")
    told = cli("explain", str(file))
    assert (told.exit_code, told.stderr) == (0, f"warning: {warning}\n")


def test_push_also_after_an_error(cli: Cli, address: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    good = json.dumps({"source": "a", "target": "b", "rtt_ms": 1.0, "hops": 1, "sent": None})
    file.write_text(f"{good}\n{good}\nbad\n{good}\n")
    skipping = cli("push", address, "ping", str(file), "--skip-bad", "--json")
    assert only_object(skipping.stdout) == {"accepted": 3, "repeated": 0, "late": 0, "skipped": 1}
    assert only_object(skipping.stdout).keys() == documented("push --json")
    failing = cli("push", address, "ping", str(file), "--batch", "2", "--json")
    assert (failing.exit_code, only_object(failing.stdout)["accepted"]) == (2, 2)


def test_prepare_when_there_is_an_archive(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "classes.jsa"
    file.touch()
    monkeypatch.setattr(archive, "archive", lambda: file)
    found = only_object(cli("prepare", "--json").stdout)
    assert found == {"archive": str(file), "made": False, "seconds": None}
    assert found.keys() == documented("prepare --json")


def test_prepare_when_there_can_be_no_archive(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "archive", lambda: tmp_path / "none.jsa")
    monkeypatch.setattr(archive, "can_be_made", lambda: False)
    told = cli("prepare", "--json")
    assert only_object(told.stdout) == {"archive": None, "made": False, "seconds": None}
    assert "java -Xshare:dump" in told.stderr


def test_prepare_when_it_was_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prepare._tell(tmp_path, 61.23, as_json=True)
    assert only_object(capsys.readouterr().out) == {"archive": str(tmp_path), "made": True, "seconds": 61.2}

"""The pages of reference say what the code says: no option, limit or setting is missing, and none is made up."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, fields

import pytest
from pydantic import BaseModel

from anabranch import limits
from anabranch.deploy import description
from anabranch.deploy.fault_script import NEEDS, StepTable
from anabranch.deploy.mistakes import CODES
from anabranch.engine.session import DEFAULTS, REQUIRED
from anabranch.node.settings import NodeSettings
from anabranch.query.builder import Query, Stream
from anabranch.query.catalog import KINDS
from anabranch.query.functions import AGGREGATES
from anabranch.query.infer import PLAIN_TYPES
from scripts import status_reference
from scripts.cli_reference import PAGE, commands, page
from tests.unit.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
CONFIGURATION = (REFERENCE / "configuration.md").read_text()
DEPLOYMENT = (REFERENCE / "deployment.md").read_text()
FAULTS = (REFERENCE / "faults.md").read_text()
BOXES = (REFERENCE / "boxes.md").read_text()
SET_ON_A_NODE = {
    "BATCH_INTERVAL_US",
    "BATCH_ROWS",
    "BOUNDARY_INTERVAL_US",
    "LOG_RETENTION_US",
    "LOG_BYTES",
    "DISK_RESERVE_BYTES",
}


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, without the marks of code."""
    lines = text.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_page_of_the_command_line_is_what_the_program_says() -> None:
    assert PAGE.read_text() == page(), "run scripts/cli_reference.py"


def test_the_page_of_the_status_is_what_its_types_say() -> None:
    assert status_reference.PAGE.read_text() == status_reference.page(), "run scripts/status_reference.py"


def test_settings_of_a_node() -> None:
    from anabranch.cli.app import app

    told = {row[0]: row[2] for row in table(CONFIGURATION, "Python")}
    wanted = {
        each.name: "none" if each.default_factory is not MISSING else str(each.default) for each in fields(NodeSettings)
    }
    assert told == wanted
    run = dict(commands(app, "anabranch"))["anabranch run"]
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(run).parameters}
    assert {row[1] for row in table(CONFIGURATION, "Python")} <= options


def test_limits() -> None:
    told = {row[0]: ast.literal_eval(row[1].replace(",", "") if ", " not in row[1] else f"({row[1]})")
            for row in table(CONFIGURATION, "limit")}  # fmt: skip
    assert told == {name: value for name, value in vars(limits).items() if name.isupper() and name not in SET_ON_A_NODE}


def test_settings_of_spark() -> None:
    required = dict(table(CONFIGURATION, "required"))
    assert required.keys() == REQUIRED.keys()
    short = {key: value for key, value in REQUIRED.items() if "." not in value}
    assert {key: required[key] for key in short} == short
    assert dict(table(CONFIGURATION, "default setting")) == DEFAULTS


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_box_is_told_in_both_forms(kind: str) -> None:
    rows = table(section(BOXES, KINDS[kind].makes.__name__), "Python")
    keys = [key.strip() for row in rows for key in row[1].split(",")]
    assert sorted(keys) == sorted(key.name for key in KINDS[kind].keys)
    builder = getattr(Stream, kind, None) or getattr(Query, kind)
    named = {
        name for name, each in inspect.signature(builder).parameters.items() if each.kind is not each.VAR_POSITIONAL
    }
    assert {row[0] for row in rows if " " not in row[0]} == named - {"self", "name", "other"}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("key of the file", description.Description),
        ("key of a node", description.NodeTable),
        ("key of `spark`", description.SparkTable),
        ("key of a query", description.QueryTable),
        ("key of an entry", description.EntryTable),
        ("key of a link", description.LinkTable),
    ],
)
def test_every_key_of_a_deployment_file(heading: str, model: type[BaseModel]) -> None:
    keys = [field.alias or name for name, field in model.model_fields.items()]
    assert sorted(row[0] for row in table(DEPLOYMENT, heading)) == sorted(keys)


def test_every_key_of_a_fault_script_and_every_fault() -> None:
    rows = {key.strip(): row for row in table(FAULTS, "key of a step") for key in row[0].split(",")}
    assert sorted(rows) == sorted(field.alias or name for name, field in StepTable.model_fields.items())
    assert [fault for fault in NEEDS if fault not in rows["do"][2]] == []
    assert {word for row in table(FAULTS, "fault") for word in re.findall(r"\b[a-z]+\b", row[0])} == NEEDS.keys()


def test_every_mistake_of_a_deployment_file() -> None:
    assert dict(table(DEPLOYMENT, "mistake")) == CODES


def test_aggregates_and_types_are_listed() -> None:
    listed = section(BOXES, "Aggregate").partition("Aggregates, also")[2].partition("Others depend")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == AGGREGATES
    assert [name for name in PLAIN_TYPES if f"`{name}`" not in BOXES] == []

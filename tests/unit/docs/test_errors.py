"""Every code has a section in docs/reference/errors.md, and the example there causes exactly that code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.flight as flight
import pytest

import anabranch as ab
from anabranch import errors
from anabranch.query.problems import CODES
from anabranch.transport import failures, messages
from anabranch.transport.server import FlightServer
from tests.unit.docs.pages import NODE, ROOT, Block, blocks
from tests.unit.transport.fake_node import FakeNode

PAGE = ROOT / "docs" / "reference" / "errors.md"
CLASSES = {
    cls.code: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.AnabranchError)
}
ONLY_ON_THE_COMMAND_LINE = "unexpected"
SECTIONS = {
    match[1]: (match.start(), match[2])
    for match in re.finditer(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
}


def section_of(block: Block) -> str:
    above = "".join(PAGE.read_text().splitlines(keepends=True)[: block.line])
    return re.findall(r"^### (\S+)$", above, re.MULTILINE)[-1]


EXAMPLES = [block for block in blocks(PAGE) if block.language in ("python", "yaml")]
OF_PROBLEMS = [block for block in EXAMPLES if section_of(block) in CODES]
OF_ERRORS = [block for block in EXAMPLES if section_of(block) not in CODES]


@pytest.fixture
def address() -> Iterator[str]:
    with FlightServer(FakeNode()) as server:
        yield server.address


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    assert sorted(SECTIONS) == sorted([*CLASSES, *CODES, ONLY_ON_THE_COMMAND_LINE])


def test_no_error_has_the_code_of_a_problem() -> None:
    assert CLASSES.keys() & CODES.keys() == set()


def test_codes_that_are_written_elsewhere_in_the_source_are_known() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if "core" not in path.parts)
    written = set(re.findall(r'Problem\(\s*code="([\w-]+)"', source)) | set(re.findall(r"error\[([\w-]+)\]", source))
    assert written <= CLASSES.keys() | CODES.keys() | {ONLY_ON_THE_COMMAND_LINE}


@pytest.mark.parametrize("code", SECTIONS)
def test_a_section_has_an_example_or_names_the_test_that_causes_it(code: str) -> None:
    text = SECTIONS[code][1]
    named = re.findall(r"<!-- tested by: (\S+) -->", text)
    assert len(named) + sum(section_of(block) == code for block in EXAMPLES) == 1
    what = CLASSES[code].__name__ if code in CLASSES else f"[{code}]" if code == "unexpected" else f'"{code}"'
    for path in named:
        assert what in (ROOT / path).read_text(), f"{path} does not test {what}"


@pytest.mark.parametrize("code", CLASSES)
def test_the_section_of_an_error_names_its_class(code: str) -> None:
    assert f"`{CLASSES[code].__name__}`" in SECTIONS[code][1]


@pytest.mark.parametrize("block", OF_PROBLEMS, ids=section_of)
def test_the_example_of_a_problem_causes_it_and_nothing_else(block: Block) -> None:
    if block.language == "yaml":
        query = ab.Query.from_yaml(block.text)
    else:
        names: dict[str, object] = {"ab": ab}
        exec(compile(block.text, str(block), "exec"), names)
        query = names["q"]  # type: ignore[assignment]
    expected = block.notes.get("codes", section_of(block)).split(", ")
    assert section_of(block) in expected
    assert [problem.code for problem in query.validate()] == expected


@pytest.mark.parametrize("block", OF_ERRORS, ids=section_of)
def test_the_example_of_an_error_raises_it(
    block: Block, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ab.AnabranchError) as caught:
        exec(compile(block.text.replace(NODE, address), str(block), "exec"), {"ab": ab})
    assert caught.value.code == section_of(block)


# --- codes whose example takes a stranger at the other end of the wire ------------------------------------------------


def test_a_code_of_a_newer_node_is_the_root_error() -> None:
    detail = messages.encode({"code": "of-tomorrow", "message": "It is new.", "remedy": ""})
    error = failures.from_flight(flight.FlightServerError("It is new.", extra_info=detail), "a:1")
    assert type(error) is errors.AnabranchError
    assert (error.code, error.message) == ("error", "It is new.")


def test_an_answer_of_something_that_is_no_node_is_for_the_operator() -> None:
    error = failures.from_flight(flight.FlightServerError("what?"), "a:1")
    assert type(error) is errors.OperatorError
    assert error.code == "operator"


def test_the_class_of_all_that_users_can_mend_is_never_raised_by_itself() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert "UserError(" not in source.replace("class UserError(", "").replace("(UserError)", "")

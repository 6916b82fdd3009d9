"""Loading a query from a YAML file or a Python program."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import ConfigError, QueryError
from anabranch.query.files import load

EXAMPLES = Path(__file__).parents[3] / "examples"


def program(directory: Path, text: str) -> Path:
    path = directory / "program.py"
    path.write_text("from anabranch.query.builder import Query\n" + text)
    return path


def test_the_two_forms_of_the_example_are_the_same_query_but_for_names() -> None:
    python, by_hand = (load(EXAMPLES / f"slow_paths.{suffix}").checked() for suffix in ("py", "yaml"))
    kinds = [[type(box).__name__ for box in diagram.boxes] for diagram in (python, by_hand)]
    assert kinds[0] == kinds[1]
    assert [output.name for output in python.outputs] == [output.name for output in by_hand.outputs]


def test_a_program_with_one_query_under_any_name(tmp_path: Path) -> None:
    assert load(program(tmp_path, "anything = alias = Query('mine')")).name == "mine"


def test_of_several_queries_the_one_called_query_is_loaded(tmp_path: Path) -> None:
    assert load(program(tmp_path, "other = Query('other')\nquery = Query('mine')")).name == "mine"


def test_several_queries_without_a_preferred_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several queries: a, b"):
        load(program(tmp_path, "a = Query('a')\nb = Query('b')"))


def test_a_program_without_a_query(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="defines no query"):
        load(program(tmp_path, ""))


def test_a_program_may_import_what_lies_beside_it_and_is_not_main(tmp_path: Path) -> None:
    (tmp_path / "beside_the_program.py").write_text("NAME = 'mine'\n")
    text = "from beside_the_program import NAME\nq = Query(NAME)\nif __name__ == '__main__': raise ValueError\n"
    assert load(program(tmp_path, text)).name == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q = Qery('a')", "line 2: NameError: name 'Qery' is not defined"),
        ("q = (", "line 2: '(' was never closed"),
        ("import sys\nsys.exit(3)", "line 3: SystemExit: 3"),
    ],
)
def test_an_error_in_a_program_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = program(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert f"{path}, {message}" in str(caught.value)


def test_a_query_error_in_a_program_stays_one(tmp_path: Path) -> None:
    with pytest.raises(QueryError):
        load(program(tmp_path, "q = Query('a')\nq.output('o', None)"))


@pytest.mark.parametrize(
    ("name", "message"), [("q.toml", "not a query file"), ("q.py", "No such"), ("q.yml", "No such")]
)
def test_files_that_cannot_be_loaded(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / name)


def test_a_broken_yaml_file_is_told_by_its_name_and_line(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("query: q\nboxes: {\n")
    with pytest.raises(ConfigError, match=r"q\.yaml, line 3"):
        load(path)

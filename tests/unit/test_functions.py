"""Functions of Python boxes: what is found by a name, and what is wrong with what one returns."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError
from anabranch.functions import called, find, find_again, located

MADE = pa.schema([("n", pa.int64())])
ROWS = pa.record_batch({"x": pa.array([1, 2, 3])})
FUNCTIONS = "tests.python_functions"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's that Python finds."""
    path = tmp_path / "user_scoring.py"
    path.write_text("def score(rows):\n    return rows\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "user_scoring", raising=False)
    return path


def test_a_function_is_found_with_its_place_and_a_digest_of_its_source(module: Path) -> None:
    found = find("user_scoring:score")
    assert found.call(ROWS) is ROWS
    assert found.root == str(module.parent)
    assert found.digest == hashlib.sha256(module.read_bytes()).hexdigest()
    assert located("user_scoring:score") == (found.root, found.digest)


def test_the_place_of_a_module_in_a_package_is_that_of_the_package() -> None:
    assert find(f"{FUNCTIONS}:describe").root == str(Path(__file__).parents[2])
    assert find("tests:__doc__.__class__").root == str(Path(__file__).parents[2])


def test_what_is_part_of_python_has_no_place_and_no_digest() -> None:
    assert located("sys:intern") == ("", "")


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("nowhere:f", "nowhere:f: there is no module 'nowhere'.", "Put nowhere.py beside the query file"),
        ("tests.nowhere:f", "tests.nowhere:f: there is no module 'tests.nowhere'.", "or install it"),
        (f"{FUNCTIONS}:nothing", "python_functions.py has no 'nothing'.", "Define the function"),
        (f"{FUNCTIONS}:NOT_CALLABLE", f"{FUNCTIONS}:NOT_CALLABLE is an int.", "Name a function"),
    ],
)
def test_what_is_missing_is_told(name: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as told:
        find(name)
    assert message in told.value.message
    assert remedy in told.value.remedy
    assert located(name) == ("", "")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_else\n", "user_scoring:score: the module needs 'nowhere_else', which is not installed."),
        ("\nx = 1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero (user_scoring.py, line 2)."),
        ("def score(:\n", "cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(module: Path, source: str, message: str) -> None:
    module.write_text(source)
    with pytest.raises(ConfigError) as told:
        find("user_scoring:score")
    assert message in told.value.message
    assert told.value.remedy


def test_a_worker_finds_the_module_where_the_host_did(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, digest = located("user_scoring:score")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != root])
    monkeypatch.delitem(sys.modules, "user_scoring")
    assert find_again("user_scoring:score", root, digest).digest == digest


def test_a_worker_with_another_version_says_so(module: Path) -> None:
    with pytest.raises(ConfigError, match="this worker has a different version of the module than the host, in "):
        find_again("user_scoring:score", str(module.parent), "0123")


@pytest.mark.parametrize("returned", [pa.array([4, 5, 6]), pa.chunked_array([[4], [5, 6]]), pa.table({"n": [4, 5, 6]})])
def test_one_column_may_come_by_itself_or_in_a_table(returned: object) -> None:
    assert called("b", "m:f", lambda _: returned, ROWS, MADE) == [pa.array([4, 5, 6])]


def test_columns_come_in_the_order_of_the_declaration() -> None:
    made = pa.schema([("n", pa.int64()), ("t", pa.string())])
    returned = pa.record_batch({"t": ["a", None, "c"], "n": [4, 5, 6]})
    assert called("b", "m:f", lambda _: returned, ROWS, made) == [pa.array([4, 5, 6]), pa.array(["a", None, "c"])]


@pytest.mark.parametrize(
    ("function", "message", "remedy"),
    [
        ("too_few", "Box b: m:f returned 2 values of n for 3 rows.", "Return one for each row"),
        ("too_small", "Box b: m:f returned n as int32, and the box declares int64.", "Cast it"),
        ("renamed", "Box b: m:f returned xs.", "Return a RecordBatch or Table with the columns n"),
        ("a_list", "Box b: m:f returned a list.", "Return a RecordBatch or Table with the columns n, or an Array."),
        ("fails", "Box b: m:f raised ValueError: cannot score 3 rows (python_functions.py, ", "Correct the"),
    ],
)  # fmt: skip
def test_what_a_function_returns_is_held_to_what_the_box_declares(function: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as told:
        called("b", "m:f", find(f"{FUNCTIONS}:{function}").call, ROWS, MADE)
    assert told.value.message.startswith(message)
    assert told.value.remedy.startswith(remedy)

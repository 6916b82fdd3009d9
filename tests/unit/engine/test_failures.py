"""What an executor lacks is told with what to do about it."""

from __future__ import annotations

import pytest

from anabranch.engine.failures import in_short, remedy
from anabranch.transport.failures import unreachable


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("Traceback:\nModuleNotFoundError: No module named 'anabranch'", "Install anabranch"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "same minor version"),
        ('java.io.IOException: Cannot run program "/opt/venv/bin/python"', "PYSPARK_PYTHON"),
        (str(unreachable("127.0.0.1:7700", "refused")), "--host"),
        ("[DIVIDE_BY_ZERO] Division by zero.", ""),
    ],
)
def test_the_remedy_fits_what_the_executor_said(cause: str, told: str) -> None:
    assert told in remedy(cause)
    assert bool(told) == bool(remedy(cause))


def test_of_a_traceback_only_what_was_raised_is_told() -> None:
    raised = "ModuleNotFoundError: No module named 'anabranch'"
    frames = "".join(f'  File "worker.py", line {number}, in main\n    code()\n' for number in range(50))
    text = f"org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{frames}{raised}\n"
    assert in_short(text) == f"org.apache.spark.api.python.PythonException: {raised}"


def test_state_of_another_operator_is_told_as_that_of_an_older_version() -> None:
    said = (
        "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match "
        "with the operator in state metadata. SQLSTATE: 42K03"
    )
    assert "written by an older version of Anabranch" in in_short(said)
    assert "new state directory" in remedy(said)

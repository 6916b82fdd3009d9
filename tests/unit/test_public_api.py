"""The public names: one sorted list, all of them there and explained, and cheap to import."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib.resources import files

import anabranch

IMPORT_AND_TELL = """
import json, sys
import anabranch
import psutil
loaded = sorted({name.partition(".")[0] for name in sys.modules})
started = [child.name() for child in psutil.Process().children(recursive=True)]
print(json.dumps({"loaded": loaded, "started": started}))
"""


def own_docstring(thing: object) -> str:
    """What was written for this thing itself: not inherited, and not the signature that a dataclass gets by default."""
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    is_signature = inspect.isclass(thing) and (text or "").startswith(f"{thing.__name__}(")
    return "" if is_signature else (text or "").strip()


def explainable_names() -> list[str]:
    """The names of classes, functions and modules; a constant has no docstring of its own at run time."""
    things = {name: getattr(anabranch, name) for name in anabranch.__all__}
    return [name for name, thing in things.items() if callable(thing) or inspect.ismodule(thing)]


def test_the_names_are_sorted_and_there_is_none_twice() -> None:
    assert list(anabranch.__all__) == sorted(set(anabranch.__all__))


def test_every_name_is_there() -> None:
    missing = [name for name in anabranch.__all__ if not hasattr(anabranch, name)]
    assert not missing


def test_every_name_is_explained() -> None:
    silent = [name for name in explainable_names() if not own_docstring(getattr(anabranch, name))]
    assert not silent, f"without a docstring of their own: {', '.join(silent)}"


def test_a_generated_or_inherited_docstring_does_not_count() -> None:
    class Explained:
        """Says what it is."""

    class Silent(Explained):
        pass

    class Signature:
        __doc__ = "Signature(x: int)"

    assert own_docstring(Explained)
    assert not own_docstring(Silent)
    assert not own_docstring(Signature)


def test_importing_loads_no_spark_and_starts_nothing() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORT_AND_TELL], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert not {"pyspark", "py4j"} & set(told["loaded"])
    assert told["started"] == []


def test_the_types_are_published() -> None:
    assert files("anabranch").joinpath("py.typed").is_file()

"""Who may import whom, read from the source itself.

Dependencies point one way (see ``ORDER``), and a few powers belong to one package each: Spark to ``engine``, Flight to
``transport``, threads to ``node``. ``core`` has none at all, which is what lets a simulator run it. An import inside a
function or under ``TYPE_CHECKING`` counts like any other: a dependency in types is a dependency.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FACE = "anabranch"
"""The layer of ``anabranch/__init__.py``: it gathers the public names and is imported by programs, not by packages."""

ORDER = (
    ("errors", "exits", "limits", "failpoints", "syncing"),
    ("model",),
    ("query",),
    ("columns", "functions"),  # Arrow, so not for core, which is pure
    ("reference", "core"),
    ("runtime",),  # its types are what engine, storage and transport speak
    ("engine", "storage", "transport", "connectors"),
    ("node",),
    ("deploy",),
    (FACE,),
    ("demo", "bench"),
    ("paper",),
    ("cli", "dashboard"),
)
"""From the bottom up. A layer may import itself and those below it, not its dialer; the lowest are one family."""

BESIDE_THE_ORDER = {
    "sim": {"errors", "limits", "failpoints", "model", "query", "reference", "core", "runtime"},
    "testing": {layer for level in ORDER for layer in level} - {FACE, "demo", "bench", "paper", "cli", "dashboard"},
}
DOORS = {"connectors": "anabranch.transport.rows", "cli": "anabranch.sim"}
"""The one module of another layer that a layer may import: files are read as what clients push is, and a simulation is
started by hand."""

ONLY_IN = {
    "engine": ("pyspark", "py4j"),
    "transport": ("pyarrow.flight",),
    "node": (
        "threading.Thread",
        "threading.Timer",
        "_thread",
        "concurrent.futures",
        "multiprocessing.dummy",
        "multiprocessing.pool",
    ),
}
ALSO_IN = dict.fromkeys(("demo", "bench", "paper"), ("threading.Thread",))
"""A power that other layers have, too: demo, benchmark and experiment play the clients of nodes, which are programs of
their own."""

ALSO_IN_MODULE = {
    "anabranch.transport.racing": ("threading.Thread",),
    "anabranch.transport.journals": ("threading.Thread",),
    "anabranch.transport.overdue": ("threading.Thread",),
}
"""A power that one module has, too. A client that reads several copies needs a thread for each: a read of Flight blocks
and cannot be waited for together with others, so with one thread the slowest copy would hold up all. The server of
journals has a thread for each connection of Spark, as gRPC has for each call. A call that stays open has no deadlines
of its own, so one thread ends those whose answers are overdue. These threads only read, send and end; nothing is
decided in them."""

IMPURE = (
    *(
        "asyncio",
        "concurrent",
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "glob",
        "io",
    ),
    *("multiprocessing", "os", "pathlib", "pyarrow", "pyspark", "random", "secrets", "select", "selectors", "shutil"),
    "anabranch.syncing",
    *("signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "uuid"),
)
"""What ``core`` may not mention: clocks, threads, files, sockets, chance, Spark and Arrow."""

WITHOUT_PORTS = tuple(name for name in IMPURE if name != "pyarrow")
"""What ``runtime`` may not mention: it has batches in its hands, and reaches the world only through ports."""


def allowed_layers() -> dict[str, set[str]]:
    allowed = {layer: {layer, *below} for layer, below in BESIDE_THE_ORDER.items()}
    below: set[str] = set()
    for level in ORDER:
        for layer in level:
            allowed[layer] = {layer, *below}
        below |= set(level)
    for layer in ORDER[0]:
        allowed[layer] = set(ORDER[0])
    allowed["core"] -= {"columns", "functions"}
    return allowed


ALLOWED = allowed_layers()


def layer_of(name: str) -> str:
    """The layer of a dotted name: ``anabranch.query.boxes`` is in ``query``, ``anabranch.Query`` in the public face."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else FACE


def is_within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


class Mentions(ast.NodeVisitor):
    """Every dotted name that a module imports, or reaches through something it imported, with its line."""

    def __init__(self, module: str, *, is_package: bool) -> None:
        self.found: list[tuple[int, str]] = []
        self._bound: dict[str, str] = {}
        self._package = module.split(".") if is_package else module.split(".")[:-1]

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.found.append((node.lineno, alias.name))
            if alias.asname:
                self._bound[alias.asname] = alias.name
            else:
                top = alias.name.partition(".")[0]
                self._bound[top] = top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._package[: len(self._package) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            name = origin if alias.name == "*" else f"{origin}.{alias.name}"
            self.found.append((node.lineno, name))
            self._bound[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._resolve(node)
        if name:
            self.found.append((node.lineno, name))
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if self._imports(func):
                self.found.append((node.lineno, name))
            case ast.Call(func=ast.Name(id="open")):
                self.found.append((node.lineno, "io.open"))
        self.generic_visit(node)

    def _imports(self, function: ast.expr) -> bool:
        is_builtin = isinstance(function, ast.Name) and function.id == "__import__"
        return is_builtin or self._resolve(function) == "importlib.import_module"

    def _resolve(self, node: ast.expr) -> str | None:
        match node:
            case ast.Name(id=name):
                return self._bound.get(name)
            case ast.Attribute(value=value, attr=attribute):
                owner = self._resolve(value)
                return f"{owner}.{attribute}" if owner else None
        return None


def broken_rules(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """One sentence for each rule that this source breaks, were it the module of that name."""
    tree = ast.parse(source)
    if not ast.get_docstring(tree):
        yield f"{module} has no docstring"
    layer = "cli" if module == "anabranch.__main__" else layer_of(module)
    if layer == FACE and module != "anabranch":
        yield f"{module} has no place in the order of layers"
        return
    mentions = Mentions(module, is_package=is_package)
    mentions.visit(tree)
    for line, name in sorted(set(mentions.found)):
        complaint = complaint_about(name, layer, module)
        if complaint:
            yield f"{module}:{line} mentions {name}, {complaint}"


def complaint_about(name: str, layer: str, module: str) -> str | None:
    if is_within(name, "anabranch"):
        target = layer_of(name)
        is_door = layer in DOORS and is_within(name, DOORS[layer])
        return None if target in ALLOWED[layer] or is_door else f"but {layer} may not import {target}"
    if layer == "core" and any(is_within(name, impure) for impure in IMPURE):
        return "but core is pure"
    if layer == "runtime" and any(is_within(name, impure) for impure in WITHOUT_PORTS):
        return "but runtime reaches the world through ports"
    if any(is_within(name, prefix) for prefix in (*ALSO_IN.get(layer, ()), *ALSO_IN_MODULE.get(module, ()))):
        return None
    for owner, prefixes in ONLY_IN.items():
        if layer != owner and any(is_within(name, prefix) for prefix in prefixes):
            return f"which belongs to {owner}"
    return None


# --- the repository ------------------------------------------------------------------------------------------------


def modules() -> list[Path]:
    return sorted((SRC / "anabranch").rglob("*.py"))


def test_every_module_keeps_to_its_layer_and_says_what_it_is() -> None:
    broken: list[str] = []
    for path in modules():
        parts = path.relative_to(SRC).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        broken += broken_rules(module, path.read_text(encoding="utf-8"), is_package=is_package)
    assert not broken, "\n" + "\n".join(broken)


def test_the_page_of_the_architecture_names_every_package() -> None:
    page = (SRC.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (SRC / "anabranch").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_the_sources_were_found() -> None:
    assert SRC / "anabranch" / "errors.py" in modules()


# --- the checker itself --------------------------------------------------------------------------------------------


def complaints(module: str, code: str, *, is_package: bool = False) -> list[str]:
    return list(broken_rules(module, f'"""A made-up module."""\n{code}\n', is_package=is_package))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("anabranch.model.names", "from anabranch.errors import check"),
        ("anabranch.query.boxes", "from anabranch.model.names import OWNED_LANE"),
        ("anabranch.query.boxes", "from anabranch import errors, model"),
        ("anabranch.query.boxes", "from . import validate\nfrom ..model import names"),
        ("anabranch.connectors.file_feed", "from anabranch.transport import rows\nrows.split"),
        ("anabranch.engine.session", "from pyspark.sql import SparkSession"),
        ("anabranch.transport.server", "import pyarrow.flight as fl"),
        ("anabranch.storage.log", "import sqlite3\nimport pyarrow as pa\npa.RecordBatch"),
        ("anabranch.storage.log", "import threading\nlock = threading.Lock()"),
        ("anabranch.node.loop", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.demo.clients", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.bench.sides", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.paper.measuring", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.paper.claims", "from anabranch.bench.report import Result"),
        ("anabranch.transport.racing", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.transport.journals", "import threading\nthreading.Thread(target=print)"),
        ("anabranch.bench.sides", "from anabranch.engine.baseline import PlainQuery"),
        ("anabranch.core.lane", "import numpy as np\nfrom anabranch.query import boxes\ntime = np.int64(3)\ntime.item"),
        ("anabranch.sim.world", "from anabranch.core import lane\nfrom anabranch.reference import box"),
        ("anabranch.cli", "import anabranch as ab\nab.Query"),
        ("anabranch.__main__", "from anabranch.cli import main"),
        ("anabranch", "from anabranch.node import Node"),
    ],
)
def test_what_the_order_allows_passes(module: str, code: str) -> None:
    assert complaints(module, code) == []


@pytest.mark.parametrize(
    ("module", "code", "why"),
    [
        ("anabranch.errors", "from anabranch.model import names", "errors may not import model"),
        ("anabranch.model.names", "import anabranch.query.boxes", "model may not import query"),
        ("anabranch.model.names", "from ..query import boxes", "model may not import query"),
        ("anabranch.model.names", "from anabranch import query", "model may not import query"),
        ("anabranch.core.lane", "from anabranch.reference import box", "core may not import reference"),
        ("anabranch.core.lane", "from anabranch.columns import arrow_type", "core may not import columns"),
        ("anabranch.reference.boxes", "from anabranch.core import lane", "reference may not import core"),
        ("anabranch.storage.log", "from anabranch.transport import client", "storage may not import transport"),
        ("anabranch.transport.server", "from anabranch.storage import log", "transport may not import storage"),
        ("anabranch.engine.run", "from anabranch.transport.server import S", "engine may not import transport"),
        ("anabranch.engine.run", "from anabranch.transport import Client", "engine may not import transport"),
        ("anabranch.engine.run", "def f():\n    import anabranch.storage", "engine may not import storage"),
        ("anabranch.connectors.f", "from anabranch.storage import log", "connectors may not import storage"),
        ("anabranch.connectors.f", "from anabranch.transport import client", "connectors may not import transport"),
        ("anabranch.engine.feed", "from anabranch.connectors import feed", "engine may not import connectors"),
        ("anabranch.node.loop", "from anabranch.deploy import plan", "node may not import deploy"),
        ("anabranch.node.loop", "from anabranch.sim import world", "node may not import sim"),
        ("anabranch.dashboard", "from anabranch import cli", "dashboard may not import cli"),
        ("anabranch.bench.report", "from anabranch.demo import summary", "bench may not import demo"),
        ("anabranch.bench.report", "from anabranch.paper import curves", "bench may not import paper"),
        ("anabranch.sim.world", "from anabranch.node import loop", "sim may not import node"),
        ("anabranch.node.loop", "from anabranch import Query", "node may not import anabranch"),
        ("anabranch", "from anabranch.cli import main", "anabranch may not import cli"),
    ],
)
def test_an_import_against_the_order_is_caught(module: str, code: str, why: str) -> None:
    assert [text.partition("but ")[2] for text in complaints(module, code)] == [why]


@pytest.mark.parametrize(
    ("module", "code", "owner"),
    [
        ("anabranch.node.loop", "from pyspark.sql import SparkSession", "engine"),
        ("anabranch.cli", "import importlib\nimportlib.import_module('pyspark.sql')", "engine"),
        ("anabranch.cli", "__import__('py4j')", "engine"),
        ("anabranch.bench.sides", "from pyspark.sql import SparkSession", "engine"),
        ("anabranch.storage.log", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame", "engine"),
        ("anabranch.engine.run", "import pyarrow.flight", "transport"),
        ("anabranch.engine.run", "from pyarrow import flight", "transport"),
        ("anabranch.engine.run", "import pyarrow as pa\npa.flight.connect('')", "transport"),
        ("anabranch.storage.log", "import threading as t\nt.Thread(target=print)", "node"),
        ("anabranch.storage.log", "from threading import Thread", "node"),
        ("anabranch.connectors.generator", "from threading import Thread", "node"),
        ("anabranch.cli.demo", "from threading import Thread", "node"),
        ("anabranch.transport.subscription", "import threading\nthreading.Thread(target=print)", "node"),
        ("anabranch.transport.racing", "from concurrent.futures import ThreadPoolExecutor", "node"),
        ("anabranch.transport.server", "from concurrent.futures import ThreadPoolExecutor", "node"),
        ("anabranch.transport.server", "from multiprocessing.pool import ThreadPool", "node"),
    ],
)
def test_a_power_used_outside_of_its_package_is_caught(module: str, code: str, owner: str) -> None:
    assert any(text.endswith(f"which belongs to {owner}") for text in complaints(module, code))


@pytest.mark.parametrize(
    "code",
    [
        *(
            "import time",
            "import threading",
            "import socket",
            "import os",
            "import os.path",
            "from pathlib import Path",
        ),
        *("import pyarrow", "from pyarrow import compute", "import pyspark", "import sqlite3", "import random"),
        *("with open('x') as file:\n    pass", "from datetime import datetime\ndatetime.now()"),
        "def handle():\n    from time import monotonic",
    ],
)
def test_an_impure_core_is_caught(code: str) -> None:
    assert any(text.endswith("but core is pure") for text in complaints("anabranch.core.lane", code))


@pytest.mark.parametrize("code", ["import time", "import threading", "import socket", "import sqlite3"])
def test_a_runtime_that_reaches_around_its_ports_is_caught(code: str) -> None:
    assert any(text.endswith("through ports") for text in complaints("anabranch.runtime.replica", code))
    assert complaints("anabranch.runtime.replica", "import pyarrow as pa\nfrom anabranch.core import lane") == []


def test_a_module_without_a_docstring_is_caught() -> None:
    assert list(broken_rules("anabranch.model.names", "x = 1")) == ["anabranch.model.names has no docstring"]


def test_a_module_that_the_order_does_not_know_is_caught() -> None:
    assert complaints("anabranch.utils", "") == ["anabranch.utils has no place in the order of layers"]


def test_a_complaint_says_where() -> None:
    (text,) = complaints("anabranch.core.lane", "x = 1\nimport time")
    assert text == "anabranch.core.lane:3 mentions time, but core is pure"

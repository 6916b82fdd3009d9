"""Deployments for tests of real processes: entry points, which start in a second, and one node with Spark."""

from __future__ import annotations

from pathlib import Path

from anabranch.bench.processes import free_ports
from tests.spark import LIGHT, QUICK_JVM

QUERY = """\
query: numbers
boxes:
  - source: {name: numbers, schema: "n bigint"}
  - source: {name: others, schema: "n bigint"}
  - union: {name: both, inputs: [numbers, others]}
  - filter: {name: even, input: both, where: "n % 2 = 0"}
outputs:
  even: even
"""


def write(folder: Path, *, faults: bool = True) -> Path:
    """Entry points ``a`` and ``b``, and ``c``, which computes."""
    (folder / "numbers.yaml").write_text(QUERY)
    ports = free_ports(3)
    nodes = "\n".join(f'{name} = {{address = "127.0.0.1:{port}"}}' for name, port in zip("abc", ports, strict=True))
    conf = {"spark.driver.memory": "600m", "spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT}
    settings = ", ".join(f'"{key}" = "{value}"' for key, value in conf.items())
    file = folder / "numbers.toml"
    file.write_text(f"""\
faults = {str(faults).lower()}

[spark]
master = "local[1]"
conf = {{{settings}}}

[nodes]
{nodes}

[queries.numbers]
file = "numbers.yaml"
mode = "race"
on = "c"
entry = {{numbers = "a", others = "b"}}

[[links]]
between = ["a", "c"]
delay = "20ms"
jitter = "5ms"
""")
    return file

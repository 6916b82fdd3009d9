"""``anabranch bench idle``: what hosts take of a machine while next to nothing happens.

Three deployments, one after the other, each as processes of their own: three entry points that share a source, with a
replica that runs one stage; the same with a replica that runs four; and figure 7 of the racing paper as
``examples/planetlab.toml`` has it. The sources of the first two are stamped by their entry points, which promise once a
second how far time has come: so there is something to tell at rest, too, and windows close. Then come ten rows a
second, one at a time.

Time is taken when the JVMs have had a while to compile what runs all the time. Of the entry points the busiest counts.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from anabranch.bench.bench import Bench
from anabranch.bench.processes import ALL, JVM, PYTHON, ROOT, WORKERS, cpu_seconds, free_ports, memory_bytes, threads
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.steady import Flow
from anabranch.bench.ways import check_nodes
from anabranch.bench.workloads import event_rows, four_stages, window_sum
from anabranch.deploy.supervisor import Supervisor
from anabranch.query import yaml_form
from anabranch.query.boxes import Diagram
from anabranch.query.text import diagram_to_dict
from anabranch.transport.session import connect

HOST: Final = Bound(most=2.0)
"""Percent of a core, beside the JVM of the host."""
FIGURE_7: Final = Bound(most=0.8)
FIGURE_7_GOAL: Final = Bound(most=0.5)
"""Cores, in all."""

LOOK_S: Final = 0.05
MIB: Final = 1 << 20

ENTRY_POINTS: Final = ("in1", "in2", "in3")
REPLICA: Final = "replica"
EXAMPLE: Final = "planetlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    warm_s: float
    measure_s: float


FULL: Final = Plan(warm_s=45, measure_s=40)
QUICK: Final = Plan(warm_s=8, measure_s=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a host takes: percent of a core by kind of process, threads and memory of its own process, and memory of
    all."""

    percent: Mapping[str, float]
    threads: int
    memory_bytes: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        return {
            "percent of a core": {kind: round(each, 2) for kind, each in self.percent.items()},
            "threads": self.threads,
            "memory, MiB": {kind: round(each / MIB) for kind, each in self.memory_bytes.items()},
        }


Costs = dict[str, Cost]
"""By host."""


class IdleBench(Bench[Plan]):
    def run(self, report: Report) -> None:
        at_rest, with_rows = self._hosts("one stage", window_sum(stamped=False))
        report.add(*host_results("entry point with two peers", *map(_busiest_entry, (at_rest, with_rows))))
        report.add(*host_results("replica with one stage", at_rest[REPLICA], with_rows[REPLICA]))
        self._keep(report, "one stage", at_rest, with_rows)
        at_rest, with_rows = self._hosts("four stages", four_stages(stamped=False))
        report.add(*host_results("replica with four stages", at_rest[REPLICA], with_rows[REPLICA]))
        self._keep(report, "four stages", at_rest, with_rows)
        with self._running("figure 7", copied_example(self._new_folder(EXAMPLE))) as nodes:
            costs = self._measured("figure 7", nodes)
        report.add(*figure_7_results(costs.values()))
        report.details["figure 7"] = {name: cost.as_json() for name, cost in costs.items()}

    def _hosts(self, name: str, diagram: Diagram) -> tuple[Costs, Costs]:
        """Three entry points and a replica: at rest, and with ten rows a second."""
        with self._running(name, write_deployment(self._new_folder(diagram.name), diagram)) as nodes:
            at_rest = self._measured(f"{name}, at rest", nodes)
            addresses = [str(nodes.plan.nodes[entry].address) for entry in ENTRY_POINTS]
            with connect(addresses) as connections:
                producer = connections.producer("events", "bench")

                def push(batch: pa.RecordBatch) -> None:
                    producer.push(batch)

                with Flow(push, make=event_rows, push_rows=1) as flow:
                    self._wait(nodes, self._plan.warm_s / 2)
                    with_rows = self._measured(f"{name}, ten rows a second", nodes)
                    flow.check()
        return at_rest, with_rows

    @contextmanager
    def _running(self, name: str, file: Path) -> Iterator[Supervisor]:
        """The nodes of a deployment, warm."""
        self._say(f"{name}: starting")
        environment = {"TMPDIR": str(self._directory)}  # a short path: Spark makes sockets there
        nodes = Supervisor(file, state=file.parent / "state", environment=environment)
        try:
            nodes.start()
            nodes.wait_running(between=self._check)
            self._say(f"{name}: warming up")
            self._wait(nodes, self._plan.warm_s)
            yield nodes
        finally:
            nodes.stop(wait_s=0.0)
        shutil.rmtree(file.parent)

    def _measured(self, what: str, nodes: Supervisor) -> Costs:
        self._say(f"{what}: measuring")
        began, before = time.monotonic(), _seconds(nodes)
        self._wait(nodes, self._plan.measure_s)
        after, took_s = _seconds(nodes), time.monotonic() - began
        return {
            name: Cost(
                percent={kind: 100 * (after[name][kind] - before[name][kind]) / took_s for kind in after[name]},
                threads=threads(nodes.child(name).session),
                memory_bytes=memory_bytes(nodes.child(name).session),
            )
            for name in nodes.plan.nodes
        }

    def _wait(self, nodes: Supervisor, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check()
            check_nodes(nodes)
            time.sleep(min(left, LOOK_S))

    def _new_folder(self, name: str) -> Path:
        folder = self._directory / name
        folder.mkdir()
        return folder

    def _keep(self, report: Report, name: str, at_rest: Costs, with_rows: Costs) -> None:
        report.details[name] = {
            phase: {host: cost.as_json() for host, cost in costs.items()}
            for phase, costs in (("at rest", at_rest), ("ten rows a second", with_rows))
        }


def _seconds(nodes: Supervisor) -> dict[str, dict[str, float]]:
    return {name: cpu_seconds(nodes.child(name).session) for name in nodes.plan.nodes}


def _busiest_entry(costs: Costs) -> Cost:
    return max((costs[name] for name in ENTRY_POINTS), key=lambda cost: cost.percent[ROOT])


# --- what is found -------------------------------------------------------------------------------------------------


def host_results(name: str, at_rest: Cost, with_rows: Cost) -> list[Result]:
    """Of the process of a host itself, which has a bound, and of the JVM and the workers that it started."""
    results: list[Result] = []
    for phase, cost in (("at rest", at_rest), ("ten rows/s", with_rows)):
        results.append(_percent(f"{name}, {phase}", cost.percent[ROOT], HOST))
        started = [kind for kind in (JVM, WORKERS) if cost.percent[kind]]
        results += [_percent(f"{name}, {phase}: {kind}", cost.percent[kind]) for kind in started]
    memory = with_rows.memory_bytes
    return [
        *results,
        Result(name=f"{name}: threads", value=with_rows.threads, unit="threads"),
        *(
            Result(name=f"{name}: memory, {kind}", value=memory[kind] / MIB, unit="MiB")
            for kind in (PYTHON, JVM)
            if memory[kind]
        ),
    ]


def figure_7_results(costs: Iterable[Cost]) -> list[Result]:
    """Of all hosts together, and of each kind of process."""
    costs = list(costs)
    cores = {kind: sum(cost.percent[kind] for cost in costs) / 100 for kind in (ALL, ROOT, JVM, WORKERS)}
    memory = sum(cost.memory_bytes[ALL] for cost in costs)
    return [
        Result(name="figure 7, in all", value=cores[ALL], unit="cores", bound=FIGURE_7, goal=FIGURE_7_GOAL),
        Result(name="figure 7: hosts beside their JVMs", value=cores[ROOT], unit="cores"),
        *(Result(name=f"figure 7: {kind}", value=cores[kind], unit="cores") for kind in (JVM, WORKERS)),
        Result(name="figure 7: memory", value=memory / MIB, unit="MiB"),
    ]


def _percent(name: str, value: float, bound: Bound | None = None) -> Result:
    return Result(name=name, value=value, unit="% of a core", bound=bound)


# --- deployments ---------------------------------------------------------------------------------------------------


def write_deployment(folder: Path, diagram: Diagram) -> Path:
    """A replica of the diagram, and three entry points for each of its sources."""
    (folder / "query.yaml").write_text(yaml_form.dump(diagram_to_dict(diagram)), encoding="utf-8")
    names = (*ENTRY_POINTS, REPLICA)
    ports = zip(names, free_ports(len(names)), strict=True)
    entries = json.dumps(list(ENTRY_POINTS))
    lines = [
        "[nodes]",
        *(f'{name} = {{address = "127.0.0.1:{port}"}}' for name, port in ports),
        *(f"[queries.{diagram.name}]", 'file = "query.yaml"', 'mode = "race"', f"on = [{json.dumps(REPLICA)}]"),
        f"[queries.{diagram.name}.entry]",
        *(f"{source.name} = {entries}" for source in diagram.sources),
        "",
    ]
    file = folder / "deployment.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def copied_example(folder: Path) -> Path:
    """The deployment of figure 7, at ports that are free."""
    examples = _examples()
    shutil.copy(examples / f"{EXAMPLE}.yaml", folder)
    text = (examples / f"{EXAMPLE}.toml").read_text(encoding="utf-8")
    listening = re.compile(r"(?<=127\.0\.0\.1:)\d+")
    ports = iter(free_ports(len(listening.findall(text))))
    file = folder / f"{EXAMPLE}.toml"
    file.write_text(listening.sub(lambda _: str(next(ports)), text), encoding="utf-8")
    return file


def _examples() -> Path:
    """In a checkout beside the sources; a wheel has them in the package."""
    package = Path(__file__).parents[1]
    inside = package / "examples"
    return inside if inside.is_dir() else package.parents[1] / "examples"

"""Three queries with the same names for boxes and streams, on two hosts that they share, as real processes.

One host takes rows in for all of them, the other has the Spark in which all of them run. Their results equal those of
the reference; a host that is killed comes back with all of its queries; a query that is handed to running hosts joins
the others; and a stage that fails touches no other query.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.deploy.handing import hand_over
from anabranch.deploy.supervisor import Supervisor
from anabranch.model.times import CLOSED_US
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from anabranch.runtime.status import HostStatus
from tests.chaos.checkers import Row, ids_contiguous, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.spark import LIGHT, QUICK_JVM
from tests.waiting import wait_for

pytestmark = pytest.mark.processes

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERY_MS = 100
HOSTS = ("entry", "work")
KEPT = {"first": "n % 2 = 0", "second": "n % 3 = 0", "third": "100 / n > 0"}
"""The same boxes do something else in each query. The third has a row that it cannot compute: 0."""
WITH_SUMS = ("first", "second")
"""Two whose state, with the same name in both, is not mixed up, and one without state."""


def query(name: str) -> ab.Query:
    made = ab.Query(name)
    kept = made.source("events", "n bigint, at timestamp", time="at").filter(KEPT[name], name="kept")
    made.output("kept", kept)
    if name in WITH_SUMS:
        made.output("sums", kept.aggregate("count(*) AS rows, sum(n) AS total", window="5s", name="sums"))
    return made


def write(folder: Path, *names: str) -> str:
    """The tables of these queries: each on both hosts."""
    for name in names:
        (folder / f"{name}.yaml").write_text(query(name).to_yaml())
    tables = (
        f'[queries.{name}]\nfile = "{name}.yaml"\nmode = "race"\non = "work"\nentry = {{events = "entry"}}\n'
        for name in names
    )
    return "\n".join(tables)


class Deployment:
    """Pushes, and knows what must come of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(2)
        self.address = {name: f"127.0.0.1:{port}" for name, port in zip(HOSTS, ports, strict=True)}
        nodes = "\n".join(f'{name} = {{address = "{address}"}}' for name, address in self.address.items())
        conf = {"spark.driver.memory": "700m", "spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT}
        settings = ", ".join(f'"{key}" = "{value}"' for key, value in conf.items())
        self.head = f'[spark]\nmaster = "local[2]"\nconf = {{{settings}}}\n\n[nodes]\n{nodes}\n\n'
        self.file = folder / "shared.toml"
        self.file.write_text(self.head + write(folder, "first", "second"))
        self.hosts = Supervisor(self.file, state=folder / "state")
        self.pushed = dict.fromkeys(KEPT, 0)

    def deploy(self, *names: str) -> None:
        """From a file of its own, to hosts that run."""
        file = self.folder / "more.toml"
        file.write_text(self.head + write(self.folder, *names))
        hand_over(file)

    def push(self, name: str, count: int, first: int | None = None) -> None:
        """Rows that go on where the last ended; ``first`` is the number in the first of them, otherwise they count."""
        begin = self.pushed[name]
        rows = [{"n": self.number(at), "at": _time(at)} for at in range(begin, begin + count)]
        if first is not None:
            rows[0]["n"] = first
        with ab.connect(self.address["entry"]) as connection:
            connection.push(f"{name}/events", rows)
        self.pushed[name] += count

    @staticmethod
    def number(at: int) -> int:
        return at + 1

    def close(self, name: str) -> None:
        with ab.connect(self.address["entry"]) as connection:
            connection.client.close_lane(f"{name}/events")

    def expected(self, name: str, *, closed: bool = False) -> dict[str, list[Row]]:
        run = ReferenceRun(query(name).checked())
        tuples = [
            Tuple(
                origin="events/0",
                stime=_us(at),
                tid=at + 1,
                values={"n": self.number(at), "at": _us(at)},
            )
            for at in range(self.pushed[name])
        ]
        run.feed("events", tuples, {"events/0": CLOSED_US if closed else _us(self.pushed[name] - 1)})
        results = run.results()
        streams = ("kept", "sums") if name in WITH_SUMS else ("kept",)
        return {stream: [Row.of(each) for each in results[stream]] for stream in streams}

    def found(self, name: str, stream: str) -> list[Row]:
        return rows_of(read_stream(self.address["work"], f"{name}/{stream}"))

    def wait_results(self, name: str, *, closed: bool = False) -> None:
        """All that the reference has, and nothing else."""
        for stream, rows in self.expected(name, closed=closed).items():
            wait_for(lambda: len(self.found(name, stream)) >= len(rows), self.status)  # noqa: B023
            found = self.found(name, stream)
            assert same_rows(rows, found) == nothing_twice(found) == ids_contiguous(found) == []

    def status(self, host: str = "work") -> HostStatus:
        with ab.connect(self.address[host]) as connection:
            return connection.status()

    def states(self, host: str) -> dict[str, str]:
        return {name: facts.state for name, facts in self.status(host).queries.items()}


def _time(at: int) -> datetime:
    return START + timedelta(milliseconds=EVERY_MS * at)


def _us(at: int) -> int:
    return int(START.timestamp()) * 1_000_000 + EVERY_MS * 1_000 * at


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("shared"))
    with made.hosts:
        made.hosts.start()
        made.hosts.wait_running()
        yield made


def test_queries_with_equal_names_do_not_meet(deployment: Deployment) -> None:
    deployment.push("first", 200)
    deployment.push("second", 300)
    for name in ("first", "second"):
        deployment.wait_results(name)
    found = deployment.status()
    assert (found.state, list(found.queries)) == ("running", ["first", "second"])
    replicas = {stage.replica for each in found.queries.values() for stage in each.stages.values()}
    assert replicas == {f"{name}/{stage}@work#1" for name in ("first", "second") for stage in ("kept", "sums")}
    state = deployment.folder / "state" / "work" / "queries"
    assert sorted(path.name for path in state.iterdir()) == ["first", "second"]


def test_a_name_that_two_queries_have_must_be_said_with_its_query(deployment: Deployment) -> None:
    with ab.connect(deployment.address["entry"]) as connection:
        with pytest.raises(ab.StreamNotFound, match=r"Name one of: first/events, second/events\."):
            connection.push("events", [{"n": 1, "at": START}])
        assert [str(info.id) for info in connection.streams() if info.kind == "source"] == [
            "first/events",
            "second/events",
        ]
    with pytest.raises(ab.StreamNotFound, match=r"Name one of: first/kept, second/kept\."):
        read_stream(deployment.address["work"], "kept")


def test_a_further_query_is_handed_to_hosts_that_run(deployment: Deployment) -> None:
    before = {name: _batches(deployment, name) for name in ("first", "second")}
    deployment.deploy("third")
    wait_for(lambda: all(deployment.states(host).get("third") == "running" for host in HOSTS), deployment.status)
    deployment.push("third", 250)
    deployment.push("first", 50)
    deployment.wait_results("third")
    deployment.wait_results("first")
    assert deployment.status().spark.starts == 1, "all queries share one Spark"
    assert all(_batches(deployment, name) >= count for name, count in before.items()), "the others ran on"


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_killed_comes_back_with_all_of_its_queries(deployment: Deployment, host: str) -> None:
    if host == "entry":
        for name in KEPT:
            deployment.push(name, 20)
    deployment.hosts.kill(host)
    if host == "work":
        for name in KEPT:
            deployment.push(name, 60)  # the other takes them meanwhile
    deployment.hosts.restart(host)
    deployment.hosts.wait_running([host])
    assert deployment.states(host) == dict.fromkeys(KEPT, "running")
    for name in KEPT:
        deployment.push(name, 10)
        deployment.wait_results(name)


def test_a_stage_that_fails_touches_no_other_query(deployment: Deployment) -> None:
    deployment.push("third", 1, first=0)
    deployment.pushed["third"] -= 1  # nothing comes of it
    wait_for(lambda: "DIVIDE_BY_ZERO" in str(_errors(deployment, "third")), deployment.status)
    for name in ("first", "second"):
        deployment.push(name, 100)
        deployment.close(name)
        deployment.wait_results(name, closed=True)
    assert [_errors(deployment, name) for name in ("first", "second")] == [[], []]
    assert deployment.status().state == "running"
    wait_for(lambda: deployment.states("work")["third"] == "failed", deployment.status)
    assert deployment.states("work") == {"first": "running", "second": "running", "third": "failed"}
    assert deployment.states("entry") == dict.fromkeys(KEPT, "running")


def _errors(deployment: Deployment, name: str) -> list[str]:
    stages = deployment.status().queries[name].stages
    return [stage.error for stage in stages.values() if stage.error]


def _batches(deployment: Deployment, name: str) -> int:
    stages = deployment.status().queries[name].stages
    return sum(stage.batches for stage in stages.values())

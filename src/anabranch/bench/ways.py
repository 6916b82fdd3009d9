"""The ways in which a steady flow is worked off: plain Spark with files, or a deployment with one copy or several.

Each is a number of processes that can be hurt. A way is fed by ``push`` and tells in ``arrivals`` what came of it, as
one who waits for results sees it: plain Spark's when the list of committed files names them and they are read, ours
when a subscriber to all copies has them. The entry point of a deployment is a process of its own, without Spark, and is
never hurt: it stands where plain Spark has its directory of files.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.bench.arrivals import Arrivals
from anabranch.bench.processes import ALL, cpu_seconds, free_ports, kill_tree, said_last, start_python
from anabranch.bench.steady import CONF, MASTER, OUTPUT, ROWS_S, SOURCE, Flow, expected, query, results
from anabranch.deploy.link_faults import fault_links
from anabranch.deploy.supervisor import Supervisor
from anabranch.errors import AnabranchError, EngineError
from anabranch.model.header import KIND, Kind
from anabranch.model.links import Link, LinkFault
from anabranch.node.relays import Relays
from anabranch.query import yaml_form
from anabranch.query.text import diagram_to_dict
from anabranch.transport.client import Client
from anabranch.transport.session import Connections, RacingSubscription, connect

LOOK_S: Final = 0.02
WATCH_S: Final = 0.005
"""How often the list of committed files is looked at."""

WAIT_S: Final = 180.0
NEAR_S: Final = 3.0
"""So much of the flow may be under way when all is well: a batch or two."""

READ_S: Final = 300.0
"""How long a subscriber waits for a node that is away."""

ENTRY: Final = "entry"
COPIES: Final = ("a", "b")


class Way(ABC):
    """One start of it, in a directory of its own. Use it as a context manager; ``check`` may end a wait by raising."""

    name: str

    def __init__(self, directory: Path, check: Callable[[], None]) -> None:
        self.directory: Final = directory
        self.arrivals: Final = Arrivals()
        self._check_asked = check
        self._failure: Exception | None = None
        self._reader = threading.Thread(target=self._read_all, name=f"results of {self.name}", daemon=True)
        self._over: Final = threading.Event()
        self.flow: Final = Flow(self.push)

    def __enter__(self) -> Self:
        """Starts it and the flow."""
        self.directory.mkdir(parents=True)
        try:
            self._start()
            self._reader.start()
            self.flow.__enter__()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Kills all that was started: nothing of it is needed any more."""
        self._over.set()
        if self.flow.is_running:
            self.flow.stop()
        self._stop()
        if self._reader.is_alive():
            self._reader.join()

    @abstractmethod
    def push(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def kill(self, turn: int) -> None:
        """SIGKILL for a process that computes. If no other one does, it is started again at once."""

    @abstractmethod
    def restore(self) -> None:
        """Starts what was killed and still is away; returns when it runs."""

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _read(self) -> None:
        """Puts what comes into ``arrivals``, until there is nothing more."""

    def check(self) -> None:
        """Raises if this is to end, or something that should run does not."""
        self._check_asked()
        self.flow.check()
        if self._failure is not None:
            raise self._failure

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, LOOK_S))

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise EngineError(f"{self.name}: after {WAIT_S:.0f} s {what}.")
            time.sleep(LOOK_S)

    def wait_near(self) -> None:
        """Until results come of rows that were made just now."""

        def is_near() -> bool:
            return self.arrivals.last_n >= max(0, self.flow.made - ROWS_S * NEAR_S)

        self.wait_until("results are still behind", is_near)

    def finish(self) -> None:
        """Ends the flow, and waits until nothing more is to come, or long enough to call it lost."""
        self.flow.stop()
        self.check()
        wanted = len(expected(self.flow.made))
        deadline = time.monotonic() + WAIT_S
        while len(set(self.arrivals.came().n.tolist())) < wanted and time.monotonic() < deadline:
            self.check()
            time.sleep(0.2)
        self.wait(1.0)  # what comes again would come now

    def _read_all(self) -> None:
        try:
            self._read()
        except Exception as error:
            if not self._over.is_set():
                self._failure = error


class PlainFiles(Way):
    """Spark alone: Parquet files in, Parquet files out, a checkpoint. Whoever runs it starts it again when it dies."""

    name = "plain Spark"

    _process: subprocess.Popen[bytes] | None = None
    _files = 0

    def push(self, batch: pa.RecordBatch) -> None:
        self._files += 1
        name = f"{self._files:06d}.parquet"
        staged = self.directory / "staging" / name
        pq.write_table(pa.Table.from_batches([batch]), staged)
        staged.rename(self.directory / SOURCE / name)

    def kill(self, turn: int) -> None:
        self._end()
        self._spawn()

    def restore(self) -> None:
        """Nothing is away: it was started at once."""

    def check(self) -> None:
        super().check()
        if self._process is not None and self._process.poll() is not None:
            raise EngineError(f"Plain Spark exited: {said_last(self.directory)}")

    def _start(self) -> None:
        for folder in ("staging", SOURCE):
            (self.directory / folder).mkdir()
        self._spawn()

    def _spawn(self) -> None:
        conf = [f"{key}={value}" for key, value in CONF.items()]
        self._process = start_python(self.directory, "anabranch.bench.plain_files", str(self.directory), *conf)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            kill_tree(process.pid)
            process.communicate()

    def _stop(self) -> None:
        self._end()

    def _read(self) -> None:
        committed = Committed(self.directory / "out")
        while not self._over.wait(WATCH_S):
            for file in committed.new_files():
                self.arrivals.add(*results(pq.read_table(file)))


class Committed:
    """The list of files that Spark's file sink has committed: a file per batch, and now and then one with all so far.

    A file in the directory that the list does not name is of a batch that was cut, and no result.
    """

    def __init__(self, directory: Path) -> None:
        self._list = directory / "_spark_metadata"
        self._batch = 0
        self._seen: set[str] = set()

    def new_files(self) -> list[Path]:
        """Those of the batches that were committed since this was asked last."""
        found: list[Path] = []
        while (text := self._batch_text()) is not None:
            self._batch += 1
            named = [json.loads(line)["path"] for line in text.splitlines()[1:]]  # the first line is a version
            found += [Path(path.removeprefix("file://")) for path in named if path not in self._seen]
            self._seen.update(named)
        return found

    def _batch_text(self) -> str | None:
        for name in (f"{self._batch}", f"{self._batch}.compact"):
            file = self._list / name
            if file.exists():
                return file.read_text()
        return None


def check_nodes(nodes: Supervisor) -> None:
    """Raises if one has ended by itself."""
    for change in nodes.look():
        if change.state == "ended":
            told = "\n".join(nodes.child(change.node).last_lines())
            raise EngineError(f"Node {change.node} exited: {told}")


class Deployed(Way):
    """A deployment with this many copies of the query, each a node of its own."""

    def __init__(
        self, name: str, copies: int, directory: Path, check: Callable[[], None], *, links: bool = False
    ) -> None:
        """With ``links`` all ways between the nodes, and from copies to the reader, count what goes through them, and
        those between the nodes can be hurt."""
        self.name = name
        self.copies: Final[Sequence[str]] = COPIES[:copies]
        self._has_links: Final = links
        self._nodes: Supervisor | None = None
        self._connections: Connections | None = None
        self._away: str | None = None
        self._to_reader: Final = Relays(
            "reader", dict.fromkeys(self.copies, Link()) if links else {}, allow_faults=False
        )
        super().__init__(directory, check)

    def push(self, batch: pa.RecordBatch) -> None:
        self._producer.push(batch)

    def kill(self, turn: int) -> None:
        name = self.copies[turn % len(self.copies)]
        self.nodes.kill(name)
        if len(self.copies) == 1:
            self.nodes.restart(name)
        else:
            self._away = name

    def restore(self) -> None:
        """Returns when the copy has caught up, too, so that the other one may be killed."""
        name, self._away = self._away, None
        if name is None:
            return
        self.nodes.restart(name)
        self.nodes.wait_running([name], between=self._check_asked)
        self.wait_until(f"the copy {name} is still behind", lambda: self._is_near(name))

    def pause(self, copy: str) -> None:
        self.nodes.pause(copy)

    def resume(self, copy: str) -> None:
        self.nodes.resume(copy)

    def hurt_link(self, copy: str, fault: LinkFault) -> None:
        """Of the link between the entry point and a copy."""
        fault_links(self.nodes.plan, ENTRY, copy, fault)

    def check(self) -> None:
        super().check()
        check_nodes(self.nodes)

    def statistics(self) -> dict[str, float]:
        """Processor seconds of all nodes, and bytes on all links."""
        cpu_s = sum(cpu_seconds(self.nodes.child(name).session)[ALL] for name in (ENTRY, *self.copies))
        links = list(self._to_reader.statistics().values())
        for name in self.copies:
            links += self._client(name).status().links.values()
        return {"cpu_s": cpu_s, "bytes": sum(link.bytes_there + link.bytes_back for link in links)}

    @property
    def nodes(self) -> Supervisor:
        assert self._nodes is not None
        return self._nodes

    def _start(self) -> None:
        temporary = {"TMPDIR": str(self.directory.parent)}  # a short path: Spark makes sockets there
        self._nodes = Supervisor(self._write(), state=self.directory / "state", environment=temporary)
        self._nodes.start()
        self._nodes.wait_running(between=self._check_asked)
        self._clients = {name: Client(self._address(name)) for name in self.copies}
        self._entry = connect(self._address(ENTRY))
        self._producer = self._entry.producer(SOURCE, "bench")
        self._connections = connect([self._to_reader.route(name, self._address(name)) for name in self.copies])
        self._subscription: RacingSubscription = self._connections.subscribe(OUTPUT, start="start", deadline_s=READ_S)

    def _stop(self) -> None:
        if self._connections is not None:
            self._connections.close()
            self._entry.close()
            for client in self._clients.values():
                client.close()
        self._to_reader.close()
        if self._nodes is not None:
            self._nodes.stop(wait_s=0.0)

    def _read(self) -> None:
        for batch in self._subscription:
            self.arrivals.add(*results(batch.filter(pa.compute.equal(batch.column(KIND), int(Kind.INSERTION)))))

    def _is_near(self, copy: str) -> bool:
        """Whether its log has what it should, of the rows up to a moment ago."""
        try:
            last_id = self._client(copy).stream(OUTPUT).last_id
        except AnabranchError:
            return False
        return last_id >= len(expected(int(self.flow.made - ROWS_S * NEAR_S)))

    def _client(self, copy: str) -> Client:
        return self._clients[copy]

    def _address(self, name: str) -> str:
        return str(self.nodes.plan.nodes[name].address)

    def _write(self) -> Path:
        """The deployment file."""
        (self.directory / "steady.yaml").write_text(yaml_form.dump(diagram_to_dict(query())))
        names = (ENTRY, *self.copies)
        ports = free_ports(len(names))
        nodes = [f'{name} = {{address = "127.0.0.1:{port}"}}' for name, port in zip(names, ports, strict=True)]
        conf = ", ".join(f"{key} = {json.dumps(value)}" for key, value in CONF.items())
        lines = [
            f"faults = {json.dumps(self._has_links)}",
            # The delay of single rows is what is measured: each batch begins at once, as plain Spark's do.
            *("[spark]", f"master = {json.dumps(MASTER)}", 'batch_interval = "0s"', f"conf = {{{conf}}}"),
            *("[nodes]", *nodes),
            *("[queries.steady]", 'file = "steady.yaml"'),
            f"mode = {json.dumps('race' if len(self.copies) > 1 else 'single')}",
            f"on = {json.dumps(list(self.copies))}",
            f"entry = {{{SOURCE} = {json.dumps(ENTRY)}}}",
        ]
        file = self.directory / "steady.toml"
        file.write_text("\n".join(chain(lines, [""])))
        return file

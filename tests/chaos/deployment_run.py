"""One run of a deployment: lanes are pushed at a steady pace, faults are done meanwhile, the output is followed.

Clients are outside: a producer for each lane, which goes on at another entry point if it loses one, and a subscriber
that reads all copies of the output from the first row to the last.

Nothing ends by the clock. Producers push until the last fault has had its turn and all is whole again, and some more;
what they have pushed is the recording of this run.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path
from statistics import median

from anabranch.deploy.looking import Found, Looker
from anabranch.deploy.sessions import members
from anabranch.deploy.supervisor import Supervisor
from anabranch.model.names import late_stream
from anabranch.runtime.status import HostStatus, to_plain
from tests.chaos.checkers import Entry, rows_of
from tests.chaos.clients import Follower, Pusher, is_closed, read_stream, recorded, running
from tests.chaos.comparing import problems_against, problems_of_log, problems_of_stream
from tests.chaos.fault_plan import ENTRIES_S, Fault, Layout
from tests.chaos.hurting import Hurting
from tests.chaos.processes import HarnessError
from tests.chaos.recording import Expected, Recording
from tests.waiting import HANG_S

AFTERMATH = 5 * ENTRIES_S
"""Entries that are pushed when the last fault is over and all is whole."""

TICK_S = 0.1
TELL_S = 20.0

AHEAD = 7
"""Faults that are looked at: as many as there are kinds."""


@dataclass(slots=True)
class Outcome:
    """What came out, and what it took."""

    output: str
    logs: dict[str, list[Entry]] = field(default_factory=dict)
    """The output as each node has it that makes it."""
    followed: list[Entry] = field(default_factory=list)
    late: dict[str, list[Entry]] = field(default_factory=dict)
    """As entry points have them that kept their disks. The others have what came later, and so has who reads them, too:
    a client begins where all of its copies do."""
    gone: set[str] = field(default_factory=set)
    """Late rows of sources of which every entry point has lost its disk, one after the other."""
    problems: list[str] = field(default_factory=list)
    """What was wrong besides the streams."""
    faults: list[Fault] = field(default_factory=list)
    back_s: dict[str, list[float]] = field(default_factory=dict)
    started_s: float = 0.0
    seconds: float = 0.0
    batch_ms: dict[str, object] = field(default_factory=dict)

    @property
    def streams(self) -> dict[str, list[Entry]]:
        """All that a client sees."""
        return {self.output: self.followed, **self.late}

    def problems_within(self) -> list[str]:
        """Whatever should have come out."""
        found = [f"{name}: {each}" for name, entries in self.streams.items() for each in problems_of_stream(entries)]
        found += [f"{name}: {each}" for name, entries in self.logs.items() for each in problems_of_log(entries)]
        return [*self.problems, *found]

    def problems_against(self, expected: Mapping[str, Expected]) -> list[str]:
        """Of what the follower saw, of late rows, and of each node's own log."""
        log = {self.output: expected[self.output]}
        found = problems_against({k: each for k, each in expected.items() if k not in self.gone}, self.streams)
        for node, entries in self.logs.items():
            found += [f"{node}: {problem}" for problem in problems_against(log, {self.output: entries})]
        return found

    @property
    def figures(self) -> str:
        text = f"{self.seconds:.0f} s, all nodes ran after {self.started_s:.1f} s, {len(rows_of(self.followed))} rows"
        text += f", batches in ms: {self.batch_ms}"
        if self.faults:
            text += f"; {len(self.faults)} faults; back after (median, most):"
            kinds = sorted(self.back_s.items())
            text += ",".join(f" {kind} {median(times):.1f} s, {max(times):.1f} s" for kind, times in kinds)
        if self.gone:
            text += f"; not compared, because all their entry points lost their disks: {sorted(self.gone)}"
        return text


class DeploymentRun:
    """A recording through one deployment, disturbed or not."""

    def __init__(self, file: Path, recording: Recording, output: str, report: Callable[[str], None] = print) -> None:
        self.output = output
        self._recording = recording
        self._report = report
        self._nodes = Supervisor(file)
        self._plan = self._nodes.plan
        self.layout = Layout.of(self._plan)
        (self._query,) = self._plan.queries.values()
        self._pushers = [
            Pusher(self._addresses(self._query.entrances[lane.source].lanes[lane.origin]), lane, restarts=False)
            for lane in recording.lanes
        ]
        self._follower = Follower(self._addresses(self._query.copies[output]), output)
        self._sessions: set[int] = set()
        self._outcome = Outcome(output)
        self._told_s = 0.0
        self._progress: object = None
        self._progress_s = 0.0

    def run(self) -> Outcome:
        """All of a recording that has an end, as fast as it goes, and nobody disturbs it."""
        with self._all_running() as hurting:
            for pusher in self._pushers:
                pusher.allow()
            self._finish(hurting)
        return self._outcome

    def run_hurt(self, faults: Iterable[Fault], *, entries_s: float = ENTRIES_S) -> Outcome:
        """As much of a recording without end as the faults take, at so many entries a second of all lanes together."""
        with self._all_running() as hurting:
            for pusher in self._pushers:
                pusher.allow(pace_s=len(self._pushers) / entries_s)
            self._hurt(hurting, iter(faults))
            for pusher in self._pushers:
                pusher.finish()
            self._finish(hurting)
        return self._outcome

    @property
    def recording(self) -> Recording:
        """What was pushed."""
        return recorded(self._recording, self._pushers)

    @contextmanager
    def _all_running(self) -> Iterator[Hurting]:
        began = time.monotonic()
        with self._nodes, Looker(self._plan, answer_s=HANG_S) as looker:
            self._nodes.start()
            self._nodes.wait_running(timeout_s=HANG_S)
            self._outcome.started_s = time.monotonic() - began
            self._report(f"all nodes running after {self._outcome.started_s:.1f} s")
            with running([*self._pushers, self._follower]):
                yield Hurting(self._nodes, self.layout, looker, self._pushed, self._report)
        left = {session: members(session) for session in self._sessions if members(session)}
        self._outcome.problems += [f"processes are left over: {left}"] if left else []
        self._outcome.seconds = time.monotonic() - began

    def _pushed(self) -> int:
        return sum(len(pusher.pushed) for pusher in self._pushers)

    def _hurt(self, hurting: Hurting, faults: Iterator[Fault]) -> None:
        """Begins when results come. Of the next few faults the first that may be done is, so that one that has to wait
        holds up nobody."""
        self._wait(lambda: bool(rows_of(self._follower.entries)), f"{self.output} begins", hurting)
        last = self._pushed()
        waiting: deque[Fault] = deque(islice(faults, AHEAD))
        while waiting:
            self._look_after(hurting, f"{waiting[0]} may begin")
            ready = next((each for each in waiting if hurting.may_begin(each)), None)
            if ready is not None and self._pushed() >= last + ready.after:
                hurting.begin(ready)
                waiting.remove(ready)
                waiting.extend(islice(faults, 1))
                last = self._pushed()
            time.sleep(TICK_S)
        self._report(f"{len(hurting.done)} faults are done; waiting until all is whole")
        self._wait(lambda: hurting.is_over, "all is whole", hurting)
        last = self._pushed()
        self._wait(lambda: self._pushed() >= last + AFTERMATH, f"{AFTERMATH} more entries are in", hurting)

    def _finish(self, hurting: Hurting) -> None:
        """Every log is read to its end."""
        self._wait(lambda: all(pusher.join(0) for pusher in self._pushers), "all lanes are closed", hurting)
        self._report("all lanes are closed")
        self._wait(lambda: is_closed(self._follower.entries), f"{self.output} ends", hurting)
        outcome = self._outcome
        outcome.followed = list(self._follower.entries)
        for node in self._query.copies[self.output]:
            address = str(self._plan.nodes[node].address)
            self._wait(lambda: is_closed(read_stream(address, self.output)), f"{node} finishes", hurting)  # noqa: B023
            outcome.logs[node] = read_stream(address, self.output)
        self._wait(lambda: self._is_compared(hurting), f"copies of {self.output} are compared", hurting)
        lost = {node for fault in hurting.done if fault.kind == "lose disk" for node in fault.where}
        for source, entrance in self._query.entrances.items():
            late, kept = late_stream(source), [node for node in entrance.nodes if node not in lost]
            if kept:
                outcome.late[late] = read_stream(self._addresses(kept), late)
            else:
                outcome.gone.add(late)
        outcome.problems += [f"copies differ: {where}: {facts}" for where, facts in hurting.alarms.items()]
        outcome.faults, outcome.back_s, outcome.batch_ms = hurting.done, hurting.back_s, hurting.batch_ms
        self._report(f"finished: {len(rows_of(outcome.followed))} rows of {self.output}")

    def _is_compared(self, hurting: Hurting) -> bool:
        """All copies of the output, by pairs, to the end."""
        to_the_end = dict.fromkeys(self._query.origins[self.output], "closed")
        for one, other in combinations(sorted(self._query.copies[self.output]), 2):
            said = hurting.found.get(one)
            copies = said.only_query.compared.get(self.output, {}) if isinstance(said, HostStatus) else {}
            if other not in copies or copies[other].compared != to_the_end:
                return False
        return True

    def _wait(self, condition: Callable[[], bool], what: str, hurting: Hurting) -> None:
        while not condition():
            self._look_after(hurting, what)
            time.sleep(TICK_S)

    def _look_after(self, hurting: Hurting, waits_for: str) -> None:
        """Of everything, ten times a second."""
        for change in self._nodes.look():
            if change.state == "ended":
                said = "\n  ".join(self._nodes.child(change.node).last_lines())
                raise HarnessError(f"{change.node} exited unexpectedly with {change.code}:\n  {said}")
        self._sessions |= {self._nodes.child(name).session for name in self._plan.nodes}
        hurting.advance()
        for client in (*self._pushers, self._follower):
            client.check()
        self._check_progress(hurting, waits_for)
        if time.monotonic() > self._told_s + TELL_S:
            self._told_s = time.monotonic()
            self._report(f"{self._pushed()} entries in, {len(rows_of(self._follower.entries))} rows out")

    def _check_progress(self, hurting: Hurting, waits_for: str) -> None:
        """However slow, something must go on: entries in, rows out, what a hurt node still lacks."""
        progress = self._pushed(), len(self._follower.entries), hurting.open_wounds, waits_for
        if progress != self._progress:
            self._progress, self._progress_s = progress, time.monotonic()
        elif time.monotonic() > self._progress_s + HANG_S:
            said = self._nodes.file.with_name("status.json")
            said.write_text(json.dumps(_plain(hurting.found), indent=1))
            places = ", ".join(f"{each.lane.origin} at {len(each.pushed)}" for each in self._pushers)
            raise HarnessError(
                f"for {HANG_S:.0f} s nothing went on while it was waited that {waits_for}; producers: {places}; "
                f"hurt: {hurting.open_wounds}; see {said}"
            )

    def _addresses(self, nodes: Sequence[str]) -> list[str]:
        return [str(self._plan.nodes[node].address) for node in nodes]


def _plain(found: Found) -> dict[str, object]:
    return {name: to_plain(said) if isinstance(said, HostStatus) else str(said) for name, said in found.items()}

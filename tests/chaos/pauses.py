"""``make pauses``: entry points that sleep in turn, as real processes; in the end every lane must take rows again.

The four entry points of ``examples/planetlab.toml`` run as ``anabranch node``, with their feeds, and without anybody
who reads them. In each round ten times one of them, chosen by chance, is stopped (SIGSTOP) for 1 to 9 s, with 0.5 to
4 s in between. After the last one all are awake: it is measured how long each lane takes to go on.

    python -m tests.chaos.pauses --rounds 20 --seed 7
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.bench.processes import free_ports
from anabranch.deploy.supervisor import Supervisor
from anabranch.errors import AnabranchError
from anabranch.transport.client import Client
from tests.chaos.planetlab import EXAMPLE, SERVERS
from tests.chaos.processes import ROOT, HarnessError
from tests.waiting import HANG_S

BOUND_S = 5.0
"""Within this time a lane takes rows, once a majority of its entry points is there."""

POLL_S = 0.1
PAUSE_S = (1.0, 9.0)
BETWEEN_S = (0.5, 4.0)

Places = dict[str, int]
"""By lane, up to where it is released at whoever has most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did, and how long each lane took afterwards; None for one that hangs."""

    seed: int
    pauses: tuple[tuple[str, float], ...]
    took_s: dict[str, float | None]

    @property
    def hanging(self) -> list[str]:
        return [lane for lane, seconds in self.took_s.items() if seconds is None]

    @property
    def longest_s(self) -> float:
        return max(HANG_S if seconds is None else seconds for seconds in self.took_s.values())


class Sleepers:
    """The entry points of the example, at free ports of this machine."""

    def __init__(self, folder: Path) -> None:
        self._nodes = Supervisor(_write_deployment(folder), state=folder / "state")
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Sleepers:
        self._nodes.start(SERVERS)
        self._nodes.wait_running(SERVERS)
        addresses = {name: node.address for name, node in self._nodes.plan.nodes.items() if name in SERVERS}
        self._clients = {name: Client(str(address), timeout_s=5.0) for name, address in addresses.items()}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for client in self._clients.values():
            client.close()
        self._nodes.stop(wait_s=20.0)

    def places(self) -> Places:
        """Of all lanes that anybody tells of."""
        found: Places = {}
        for client in self._clients.values():
            for lane, shared in _lanes(client).items():
                found[lane] = max(found.get(lane, 0), shared.released)
        return found

    def wait_progress(self, since: Places, began_s: float) -> dict[str, float | None]:
        """How long each lane takes from then on until it is further than it was."""
        took_s: dict[str, float | None] = dict.fromkeys(since)
        while (now_s := time.monotonic() - began_s) < HANG_S:
            places = self.places()
            for lane, place in since.items():
                if took_s[lane] is None and places.get(lane, 0) > place:
                    took_s[lane] = now_s
            if None not in took_s.values():
                break
            time.sleep(POLL_S)
        return took_s

    def pause(self, name: str, seconds: float) -> None:
        self._nodes.pause(name)
        time.sleep(seconds)
        self._nodes.resume(name)

    def stories(self, lanes: list[str]) -> str:
        """What each entry point says about these lanes."""
        return "\n".join(
            f"  {name}: {lane} {_lanes(client).get(lane, 'not answered')}"
            for lane in lanes
            for name, client in self._clients.items()
        )


def play_round(sleepers: Sleepers, seed: int, *, pauses: int, report: Callable[[str], None]) -> Round:
    """Some pauses, one at a time, and how long the lanes take when all are awake."""
    chance = random.Random(seed)
    done: list[tuple[str, float]] = []
    for number in range(pauses):
        if number:
            time.sleep(chance.uniform(*BETWEEN_S))
        name, seconds = chance.choice(SERVERS), chance.uniform(*PAUSE_S)
        report(f"  {name} sleeps for {seconds:.1f} s")
        sleepers.pause(name, seconds)
        done.append((name, seconds))
    awake_s = time.monotonic()
    took_s = sleepers.wait_progress(sleepers.places(), awake_s)
    return Round(seed=seed, pauses=tuple(done), took_s=took_s)


def _lanes(client: Client) -> dict[str, Any]:
    try:
        queries = client.status().queries
    except AnabranchError:
        return {}
    return {
        lane: facts.shared
        for query in queries.values()
        for source in query.sources.values()
        for lane, facts in source.lanes.items()
        if facts.shared is not None
    }


def _write_deployment(folder: Path) -> Path:
    text = (ROOT / "examples/planetlab.toml").read_text()
    for node, port in zip(EXAMPLE["nodes"], free_ports(len(EXAMPLE["nodes"])), strict=True):
        text = text.replace(f'"{EXAMPLE["nodes"][node]["address"]}"', f'"127.0.0.1:{port}"')
    (folder / "planetlab.yaml").write_text((ROOT / "examples/planetlab.yaml").read_text())
    file = folder / "planetlab.toml"
    file.write_text(text)
    return file


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.pauses", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pauses", type=int, default=10, help="in each round")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory() as folder, Sleepers(Path(folder)) as sleepers:
        began = sleepers.wait_progress(dict.fromkeys(sleepers.places(), 0), time.monotonic())
        if not began or None in began.values():
            raise HarnessError(f"the lanes do not begin: {began}")
        print(f"seed {options.seed}: {len(began)} lanes take rows", flush=True)
        for number in range(options.rounds):
            played = play_round(sleepers, options.seed + number, pauses=options.pauses, report=lambda line: None)
            rounds.append(played)
            told = ", ".join(
                f"{lane} {'hangs' if seconds is None else f'{seconds:.1f}'}" for lane, seconds in played.took_s.items()
            )
            print(f"round {number + 1} (seed {played.seed}): longest {played.longest_s:.1f} s; {told}", flush=True)
            if played.hanging:
                print(sleepers.stories(played.hanging), flush=True)
    late = [each for each in rounds if each.longest_s > BOUND_S]
    print(f"{len(rounds)} rounds, the longest wait {max(each.longest_s for each in rounds):.1f} s")
    for each in late:
        print(f"seed {each.seed}: {each.longest_s:.1f} s, and {BOUND_S:.0f} are allowed")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())

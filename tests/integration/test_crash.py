"""The short form of ``make chaos-single``: two kills, and the output is what the reference says; and kills of writers,
and of windows of tuples."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anabranch.bench.processes import free_ports
from tests.chaos.comparing import problems_against, problems_within
from tests.chaos.processes import NodeProcess, all_written
from tests.chaos.queries import FOLLOWED, ROUNDED, record
from tests.chaos.recording import expected_output
from tests.chaos.run import ChaosRun, Kill
from tests.spark import LIGHT_OPTIONS

SMALL_BATCHES = ("--batch-rows", "100")
"""So that there are many, also where Spark takes its time for each."""


@pytest.mark.processes
def test_killed_twice_a_node_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"python -m tests.chaos.single --seed {seed} makes the same kind of input")
    rng = random.Random(seed)
    kills = [
        Kill(
            failpoint=rng.choice(["push.committed", "journal.range", "stage.offsets_written", "stage.logged"]),
            count=rng.randint(1, 4),
        ),
        Kill(while_starting=True, after=rng.randint(0, 5)),  # while Spark starts
    ]
    run = ChaosRun(record(seed), tmp_path, kills, options=LIGHT_OPTIONS)
    outcome = run.run()
    assert problems_within(outcome.streams, FOLLOWED, outcome.followed) == []
    assert problems_against(expected_output(run.recording), outcome.streams, ROUNDED) == []


QUERY = """
query: carried
boxes:
  - source:
      name: made
      schema: n bigint, x double
      feed: {{generator: {{rate: 3000, rows: 4500, seed: 5, columns: {{n: sequence}}}}}}
  - source:
      name: read
      schema: n bigint, at timestamp
      time: at
      feed: {{file: {{path: {path}/rows.csv, speed: 300}}}}
  - filter: {{name: some, input: made, where: ["n % 3 = 0"]}}
outputs:
  some:
    input: some
    to:
      - jsonl:{path}/some.jsonl
      - parquet:{path}/some,every=100ms
      - spark:parquet,path={path}/spark,every=50ms
  all: {{input: read, to: "jsonl:{path}/all.jsonl"}}
"""


@pytest.mark.long
@pytest.mark.processes
def test_killed_between_a_write_and_its_acknowledgement_every_tuple_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(QUERY.format(path=tmp_path))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = (f"{number},{(start + timedelta(seconds=number)).isoformat()}\n" for number in range(400))
    (tmp_path / "rows.csv").write_text("n,at\n" + "".join(rows))
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    failpoint = f"writer.written:{random.Random(seed).randint(2, 8)}"

    def start_node(failpoint: str | None) -> NodeProcess:
        return NodeProcess(
            tmp_path / "q.yaml",
            tmp_path / "state",
            free_ports(1)[0],
            tmp_path / "log",
            failpoint=failpoint,
            options=SMALL_BATCHES,
        )

    node = start_node(failpoint)
    try:
        node.wait_stopped()
        node.kill()
        node = start_node(None)
        node.wait(lambda: all_written(node.status()), "writes all")
    finally:
        node.kill()
    expected = list(range(1, 1501))
    some = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text().splitlines()]
    assert [line["_id"] for line in some] == expected
    assert sorted(line["n"] for line in some) == list(range(0, 4500, 3))
    for directory in ("some", "spark"):
        found = pq.read_table(tmp_path / directory).sort_by("_id").to_pylist()
        assert [(row["_id"], row["n"], row["x"]) for row in found] == [(row["_id"], row["n"], row["x"]) for row in some]
    read = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [line["n"] for line in read] == list(range(400))


COUNTING = """
query: counted
boxes:
  - source: {{name: rows, schema: "n bigint, at timestamp", time: at, feed: "file:{path}/rows.csv,speed=100"}}
  - map: {{name: grouped, input: rows, columns: "n, n % 7 AS g"}}
  - aggregate:
      name: fives
      input: grouped
      columns: min(n) AS first, sum(n) AS total, count(*) AS rows
      by: g
      rows: 5
      every_rows: 2
outputs:
  fives: {{input: fives, to: "jsonl:{path}/fives.jsonl"}}
"""


@pytest.mark.long
@pytest.mark.processes
def test_killed_in_the_middle_of_windows_of_tuples_each_of_them_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(COUNTING.format(path=tmp_path))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = (f"{number},{(start + timedelta(seconds=number)).isoformat()}\n" for number in range(1_000))
    (tmp_path / "rows.csv").write_text("n,at\n" + "".join(rows))
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    log, port = tmp_path / "log", free_ports(1)[0]
    for failpoint in (f"stage.offsets_written:{rng.randint(3, 6)}", f"stage.logged:{rng.randint(3, 6)}", None):
        node = NodeProcess(
            tmp_path / "q.yaml", tmp_path / "state", port, log, failpoint=failpoint, options=SMALL_BATCHES
        )
        try:
            if failpoint is not None:
                node.wait_stopped()
            else:
                node.wait(lambda: all_written(node.status()), "writes all")  # noqa: B023
        finally:
            node.kill()
    found = [json.loads(line) for line in (tmp_path / "fives.jsonl").read_text().splitlines()]
    groups = [range(group, 1_000, 7) for group in range(7)]
    windows = [group[at : at + 5] for group in groups for at in range(0, len(group) - 4, 2)]
    assert sorted((row["g"], row["first"], row["total"], row["rows"]) for row in found) == sorted(
        (window[0] % 7, window[0], sum(window), 5) for window in windows
    )
    assert [row["_id"] for row in found] == list(range(1, len(windows) + 1))

"""The Nexmark benchmark without Spark: its rows, its files, and that wrong results are told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.bench import nexmark
from anabranch.bench.nexmark import COPIES, ENTRY, PUSH_EVENTS, Events, check_results
from anabranch.bench.nexmark_batch import BATCH, Batch
from anabranch.bench.nexmark_plain import PLAIN
from anabranch.deploy.plan import load_plan
from anabranch.errors import InvariantBroken
from anabranch.query.boxes import Diagram
from anabranch.query.files import load

EVENTS = Events(PUSH_EVENTS + 5_000)


def diagram(name: str) -> Diagram:
    return load(nexmark._examples() / f"{name}.sql").checked().without_connectors()


@pytest.mark.parametrize("name", BATCH)
def test_every_query_is_valid_and_has_one_output_of_its_name(name: str) -> None:
    assert [output.name for output in diagram(name).outputs] == [name]


def test_plain_spark_has_no_query_that_we_have_not() -> None:
    assert set(PLAIN) <= set(BATCH)


def test_rows_come_as_the_events_do_and_all_of_them() -> None:
    pieces = list(EVENTS.pieces(diagram("q8")))
    assert [source for source, _ in pieces] == ["person", "auction", "person", "auction"]
    for stream in ("person", "auction"):
        rows = pa.concat_tables([rows for source, rows in pieces if source == stream])
        assert rows == EVENTS.tables[stream]
    first_end = max(pc.max(rows["dateTime"]).as_py() for _, rows in pieces[:2])
    assert first_end < min(pc.min(rows["dateTime"]).as_py() for _, rows in pieces[2:])
    assert EVENTS.rows(diagram("q8")) == EVENTS.tables["person"].num_rows + EVENTS.tables["auction"].num_rows


def test_a_closing_row_is_an_hour_later() -> None:
    last = pc.max(EVENTS.tables["bid"]["dateTime"]).as_py()
    closing = EVENTS.closing("bid")
    assert closing.schema == EVENTS.tables["bid"].schema
    assert closing["dateTime"].to_pylist() == [last + timedelta(hours=1)]


def test_results_that_differ_from_the_batch_end_the_benchmark() -> None:
    batch = Batch(EVENTS.tables)
    bids = EVENTS.tables["bid"]
    found = bids.filter(pc.equal(pc.subtract(bids["auction"], pc.multiply(pc.divide(bids["auction"], 123), 123)), 0))
    right = found.select(["auction", "price"])
    assert right.num_rows == batch.count("q2") > 2
    check_results("q2", batch, right)
    with pytest.raises(InvariantBroken, match="q2: 1 results of the batch are missing, and 0 results are not in it"):
        check_results("q2", batch, right.slice(1))
    with pytest.raises(InvariantBroken, match="q2: 0 results of the batch are missing, and 1 results are not in it"):
        check_results("q2", batch, pa.concat_tables([right, right.slice(0, 1)]))


def test_copies_that_race_are_a_valid_deployment(tmp_path: Path) -> None:
    plan = load_plan(nexmark._deployment(diagram("q8"), tmp_path))
    assert set(plan.nodes) == {ENTRY, *COPIES}

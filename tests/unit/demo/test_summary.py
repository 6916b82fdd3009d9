"""What the demo says at its end: percentiles, the comparison with the truth, and the plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.demo.plot import plot_latencies
from anabranch.demo.scenario import BUSY, NETWORK, Cause, Ping, Scenario
from anabranch.demo.screen import latency_line
from anabranch.demo.summary import Summary, percentile, summarize

SCENARIO = Scenario(30, 300, 7)
SLOW = [
    Ping(1, "mit", "uw", 1500.0, Cause.BUSY_SERVER),
    Ping(2, "mit", "osu", 1500.0, Cause.BAD_PATH),
    Ping(3, "uw", "mit", 1500.0, Cause.LOST),
]


def summary(network: set[int], busy: set[int], latencies_s: list[float] | None = None) -> Summary:
    return summarize(
        SCENARIO,
        seconds=30.04,
        rows_in={"load": 360, "ping": 9000},
        rows_out={NETWORK: 4, BUSY: 2},
        slow=SLOW,
        found={NETWORK: network, BUSY: busy},
        latencies_s=latencies_s or [],
    )


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([3.0], 0.95, 3.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([float(n) for n in range(100, 0, -1)], 0.95, 95.0),
        ([float(n) for n in range(1, 21)], 0.95, 19.0),
        ([1.0, 2.0], 0.0, 1.0),
        ([1.0, 2.0], 1.0, 2.0),
    ],
)
def test_percentiles_are_values_that_came(values: list[float], share: float, expected: float | None) -> None:
    assert percentile(values, share) == expected


def test_what_was_put_in_came_out() -> None:
    right = summary({2, 3}, {1}, [0.25, 0.5, 1.0])
    assert right.is_right
    assert right.words()[-1] == "Correct: the query found the true cause of all 3 slow pings."
    assert f"Path {SCENARIO.bad_path_name}: all 1 slow pings are network problems." in right.words()[0]
    assert latency_line(right).endswith("median 0.50 s, 95 % 1.00 s.")


def test_a_busy_server_taken_for_the_network_is_wrong() -> None:
    wrong = summary({1, 2, 3}, {1})
    assert (wrong.wrong, wrong.missing, wrong.is_right) == (1, 0, False)
    assert "0 of 1 slow pings are the server's fault" in wrong.words()[1]
    assert wrong.words()[-1] == "Incorrect: of 3 slow pings, 1 have the wrong cause."


def test_what_has_not_come_is_missing_not_wrong() -> None:
    late = summary({2}, set())
    assert (late.wrong, late.missing, late.is_right) == (0, 2, False)
    assert late.words()[-1] == "Incorrect: of 3 slow pings, 2 did not come out in time."


def test_a_ping_that_was_not_slow_is_wrong_where_it_comes_out() -> None:
    assert summary({2, 3, 4}, {1}).wrong == 1


def test_the_summary_is_json() -> None:
    told = json.loads(json.dumps(summary({2, 3}, {1}, [0.5]).as_json()))
    assert told["rows_in"] == {"load": 360, "ping": 9000}
    assert (told["latency_median_s"], told["is_right"], told["seconds"]) == (0.5, True, 30.0)
    assert told["causes"]["bad path"] == {"made": 1, "right": 1}


@pytest.mark.parametrize("latencies", [[], [(0.4, 0.5)], [(n / 100, 0.3 + n % 7 / 10) for n in range(3000)]])
@pytest.mark.parametrize("seconds", [0.0, 3.0, 30.0])
def test_the_plot_is_a_png_also_of_a_demo_that_was_cut_short(
    tmp_path: Path, latencies: list[tuple[float, float]], seconds: float
) -> None:
    file = tmp_path / "latency.png"
    plot_latencies(file, latencies, SCENARIO.phases, seconds=seconds)
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

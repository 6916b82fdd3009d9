"""What readers report counts for lanes of that stream, and is passed on by parts that read."""

from __future__ import annotations

from anabranch.core.horizon import Horizon, Slowest
from anabranch.runtime.reader_reports import ReaderReports

MS = 1_000


def made() -> ReaderReports:
    return ReaderReports({"left": Horizon(10 * MS, (("join-1", "join-2"),)), "right": Horizon(10 * MS, (("join-1",),))})


def test_a_lane_is_held_by_what_the_readers_of_its_stream_report() -> None:
    reports = made()
    reports.told("join-2", Slowest(100 * MS, "right/0"))
    assert reports.slowest("left") == (100 * MS, "right/0")
    assert not reports.may_enter("left", 105 * MS, 120 * MS)
    assert reports.may_enter("right", 105 * MS, 120 * MS)


def test_what_is_reported_with_one_stream_counts_for_all_that_the_reader_reads() -> None:
    reports = made()
    reports.told("join-1", Slowest(100 * MS))
    assert reports.to_pass_on() == [Slowest(100 * MS), Slowest(100 * MS)]


def test_without_a_horizon_nothing_is_reported() -> None:
    reports = ReaderReports({})
    reports.told("join-1", Slowest(100 * MS))
    assert reports.to_pass_on() == []


def test_a_part_that_starts_again_holds_nobody_until_it_is_told() -> None:
    reports = made()
    reports.told("join-1", Slowest(100 * MS))
    reports.forget()
    assert reports.may_enter("left", 105 * MS, 120 * MS)

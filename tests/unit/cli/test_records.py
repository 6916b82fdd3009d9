"""Text into records: whole rows with the lines they begin at, however the bytes come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import limits
from anabranch.cli import records
from anabranch.cli.records import Record, _Cutter, batches
from anabranch.errors import PushRefused

CSV = b'a,b\n1,"x\ny"\n\n2,"say ""hi"""\r\n3,z'
CSV_RECORDS = [Record(1, b"a,b"), Record(2, b'1,"x\ny"'), Record(5, b'2,"say ""hi"""'), Record(6, b"3,z")]


def all_of(path: Path, text: bytes, *, quoted: bool, max_rows: int = 1000) -> list[list[Record]]:
    path.write_bytes(text)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list(batches(descriptor, max_rows=max_rows, quoted=quoted))
    finally:
        os.close(descriptor)


@given(cuts=st.lists(st.integers(0, len(CSV)), max_size=6).map(sorted))
def test_records_do_not_depend_on_how_the_bytes_come(cuts: list[int]) -> None:
    cutter = _Cutter(quoted=True)
    pieces = [CSV[start:end] for start, end in zip([0, *cuts], [*cuts, len(CSV)], strict=True)]
    found = [record for piece in pieces for record in cutter.cut(piece)]
    assert found + cutter.rest() == CSV_RECORDS


def test_quotes_mean_nothing_in_json_lines(tmp_path: Path) -> None:
    assert all_of(tmp_path / "x", b'"\n"\n', quoted=False) == [[Record(1, b'"'), Record(2, b'"')]]


def test_an_empty_input_has_no_batches(tmp_path: Path) -> None:
    assert all_of(tmp_path / "x", b"\n \n\n", quoted=False) == []


def test_batches_are_cut_by_rows_and_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BATCH_BYTES", 10)
    found = all_of(tmp_path / "x", b"1\n2\n3\n4\n5\n666666\n7777777\n88888888888888\n9\n", quoted=False, max_rows=4)
    assert [[record.line for record in batch] for batch in found] == [[1, 2, 3, 4], [5, 6], [7], [8], [9]]


def test_a_row_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 100)
    with pytest.raises(PushRefused, match="begins at line 2") as refused:
        all_of(tmp_path / "x", b'a\n"' + b"x\n" * 100, quoted=True)
    assert "quote" in refused.value.remedy

"""Spark computes what the papers define: random scripts on real nodes, held against the reference.

Diagrams that have every box in every position that matters. ``tests/fuzz`` draws its own, in every run of the tests.
"""

from __future__ import annotations

import pytest

from tests.property.oracle import (
    batches_differ,
    contents_differ,
    ids_broken,
    last_punctuations_differ,
    promises_broken,
)
from tests.recording import Recording

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_every_stream_has_the_contents_of_the_reference(recording: Recording) -> None:
    assert not contents_differ(recording)


def test_every_batch_has_the_tuples_watermark_and_punctuations_of_the_reference(recording: Recording) -> None:
    assert not batches_differ(recording)


def test_the_last_punctuations_do_not_depend_on_the_cuts(recording: Recording) -> None:
    assert not last_punctuations_differ(recording)


def test_every_promise_is_kept_at_every_moment(recording: Recording) -> None:
    assert not promises_broken(recording)


def test_ids_are_contiguous_and_identities_unique(recording: Recording) -> None:
    assert not ids_broken(recording)


def test_the_script_leaves_no_stream_empty(recording: Recording) -> None:
    assert all(stream.tuples for stream in recording.streams.values())

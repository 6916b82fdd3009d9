"""Reading a deployment file: whatever is written there, it is read to its end, and what is wrong is told."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.deploy.description import read
from anabranch.deploy.mistakes import path_text
from anabranch.deploy.validate import check_draft
from tests.unit.deploy.files import QUERY

KEYS = "nodes queries links spark faults address site state master batch_interval conf".split()
KEYS += "file mode on place entry write producers".split()
WORDS = [
    *KEYS,
    "between",
    "delay",
    "jitter",
    "rate",
    "a",
    "b",
    "paths",
    "slow",
    "pairs",
    "counts",
    "ping",
    "load",
    "e e",
]
TEXTS = st.sampled_from([*WORDS, "", "h:1", "h:2", "race", "single", "paths.yaml", "1ms", "1Mbit/s", "quick", "p"])
PLAIN = st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.just(date(2026, 1, 1)))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


def like(**keys: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Mostly what belongs there, sometimes something else, sometimes with more beside it."""
    right = st.fixed_dictionaries({}, optional={name: value | VALUES for name, value in keys.items()})
    return st.builds(lambda table, more: {**more, **table}, right, st.dictionaries(TEXTS, VALUES, max_size=1)) | VALUES


NAMES = TEXTS | st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
NODE = like(address=TEXTS, site=TEXTS, state=TEXTS, spark=like(master=TEXTS, batch_interval=TEXTS, conf=VALUES))
ENTRY = NAMES | like(nodes=NAMES, producers=like(p=TEXTS))
PLACES = like(slow=NAMES, pairs=NAMES, counts=NAMES)
QUERIES = like(
    file=st.just("paths.yaml"),
    mode=TEXTS,
    on=NAMES,
    place=PLACES,
    entry=like(ping=ENTRY, load=ENTRY),
    write=like(quick=TEXTS),
)
LINKS = st.lists(like(between=NAMES, delay=TEXTS, jitter=TEXTS, rate=TEXTS), max_size=3)
FILES = st.fixed_dictionaries(
    {
        "nodes": like(a=NODE, b=NODE, c=NODE),
        "queries": like(paths=QUERIES),
        "links": LINKS | VALUES,
        "faults": st.booleans() | VALUES,
        "spark": like(master=TEXTS, batch_interval=TEXTS, conf=VALUES),
    }
)


@given(FILES)
def test_any_file_is_read_to_its_end_and_told(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, object]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "paths.yaml").write_text(QUERY)
    checked = check_draft(read(data), folder / "any.toml")
    told = [(mistake.code, mistake.path, mistake.message) for mistake in checked.mistakes]
    assert len(told) == len(set(told))
    assert all(str(mistake) for mistake in checked.mistakes)


def test_what_was_given_is_left_as_it_was() -> None:
    data = {"nodes": {"a": {"address": 7}}}
    read(data)
    assert data == {"nodes": {"a": {"address": 7}}}


def test_paths_are_written_as_toml_would_have_them() -> None:
    assert path_text(("queries", "q", "place", "a b")) == 'queries.q.place."a b"'
    assert path_text(("links", 0, "delay")) == "links[0].delay"
    assert path_text(('say "x"',)) == '"say \\"x\\""'

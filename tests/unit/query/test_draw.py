"""Drawings show what is there: boxes, parameters, arrows, schemas."""

from __future__ import annotations

from anabranch.query.boxes import Arrow, Diagram, Map, Output
from anabranch.query.builder import Query
from anabranch.query.draw import as_mermaid, as_text


def drawn() -> Diagram:
    q = Query("q")
    s = q.source("s", "t timestamp, v double", time="t", disorder="1s", idle="5s")
    p = q.source("p", "t timestamp, v double", producers=["p1", "p2"], silence="1m")
    high, low = s.union(p, name="u").filter("v > 0.8", otherwise=True, name="f")
    q.output("counts", high.aggregate("count(*) AS n", by="t", window="10s", every="5s", name="a"))
    q.output("pairs", low.join(p.map("v AS v2", name="m"), on='v2 = v OR v = "x"', within="1s", name="j"))
    return q.diagram()


def test_text() -> None:
    assert (
        as_text(drawn())
        == """\
query q

source s
  | time t, disorder 1s
  | idle after 5s
  -> t timestamp, v double

source p
  | closed after 1m of silence
  | producers p1, p2
  -> t timestamp, v double

union u <- s, p
  -> t timestamp, v double

map m <- p
  | v AS v2
  -> v2 double

filter f <- u
  | 0: v > 0.8
  | 1: otherwise
  -> t timestamp, v double

aggregate a <- f
  | count(*) AS n
  | by t
  | window 10s every 5s
  -> t timestamp, n bigint

join j <- f.1, m
  | v2 = v OR v = "x"
  | within 1s
  -> t timestamp, v double, v2 double

output counts <- a
output pairs <- j
"""
    )


def test_mermaid() -> None:
    lines = as_mermaid(drawn()).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  b2(("union u"))' in lines
    assert '  b4{{"filter f<br/>0: v #gt; 0.8<br/>1: otherwise"}}' in lines
    assert '  b6["join j<br/>v2 = v OR v = #quot;x#quot;<br/>within 1s"]' in lines
    assert '  b4 -->|"port 1<br/>t timestamp<br/>v double"| b6' in lines
    assert '  b6 -->|"t timestamp<br/>v double<br/>v2 double"| o1' in lines


def test_a_derived_name_does_not_repeat_the_kind() -> None:
    q = Query("q")
    q.output("o", q.source("s", "v int").filter("v > 1"))
    assert "\nfilter_" in as_text(q.diagram())


def test_a_diagram_with_mistakes_can_be_drawn() -> None:
    loop = Map(name="loop", input=Arrow("loop"), columns="*")
    lost = Map(name="lost", input=Arrow("nowhere"), columns="*")
    diagram = Diagram(name="q", boxes=(loop, lost), outputs=(Output(name="o", input=Arrow("gone")),))
    assert "map loop <- loop" in as_text(diagram)
    assert "map lost" in as_mermaid(diagram)


def test_windows_of_tuples_and_drops() -> None:
    q = Query("q")
    s = q.source("s", "v double")
    some = s.drop(0.25, seed=7, name="some").drop("v > 1", name="low")
    q.output("tens", some.aggregate("count(*) AS n", rows=10, every_rows=5, name="tens"))
    q.output("sum", s.aggregate("sum(v) AS v", rows=10, scale=3, name="sum"))
    text, mermaid = as_text(q.diagram()), as_mermaid(q.diagram())
    assert "drop some <- s\n  | 0.25 of all, seed 7\n  -> v double\n" in text
    assert "drop low <- some\n  | where v > 1\n" in text
    assert "  | window of 10 rows every 5 rows\n" in text
    assert "  | window of 10 rows every 10 rows\n  | scale 3\n" in text
    assert '>"drop some<br/>0.25 of all, seed 7"]' in mermaid

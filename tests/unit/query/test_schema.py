"""Schemas as text, and on every arrow of a diagram."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anabranch.query.boxes import Arrow, Column
from anabranch.query.builder import Query
from anabranch.query.infer import PLAIN_TYPES
from anabranch.query.schema import format_schema, parse_schema
from anabranch.query.schemas import schemas

columns = st.builds(
    Column, st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True), st.sampled_from([*PLAIN_TYPES, "decimal(9,2)"])
)


def test_a_schema_is_read_with_spaces_quotes_and_other_spellings() -> None:
    assert parse_schema(" server STRING,\n `order`: Integer , price decimal( 10 , 2 ),") == (
        Column("server", "string"),
        Column("order", "int"),
        Column("price", "decimal(10,2)"),
    )


def test_what_is_not_a_type_is_kept_for_the_one_who_judges_it() -> None:
    assert parse_schema("a map<string,int>, b, c strin") == (
        Column("a", "map<string,int>"),
        Column("b", None),
        Column("c", "strin"),
    )


@given(st.lists(columns, max_size=6).map(tuple))
def test_a_schema_reads_back_as_it_was_written(schema: tuple[Column, ...]) -> None:
    assert parse_schema(format_schema(schema)) == schema


def test_every_arrow_has_a_schema() -> None:
    q = Query("q")
    load = q.source("load", "server string, cpu double")
    ping = q.source("ping", "source string, Target string, rtt_ms double")
    slow, rest = ping.filter("rtt_ms > 1000", otherwise=True, name="split")
    joined = slow.join(load, on="target = server", within="1s", name="joined")
    counted = slow.aggregate("count(*) AS n, avg(rtt_ms) AS r", by="TARGET", window="10s", name="counted")
    mapped = joined.map("*, cpu > 0.8 AS busy, some_udf(cpu) AS heat", name="mapped")
    both = rest.union(slow, name="both")
    for name, stream in {"o1": mapped, "o2": counted, "o3": both}.items():
        q.output(name, stream)
    found = {str(arrow): format_schema(schema) for arrow, schema in schemas(q.checked()).items()}
    pinged = "source string, Target string, rtt_ms double"
    assert found == {
        "load": "server string, cpu double",
        "ping": pinged,
        "split": pinged,
        "split.1": pinged,
        "joined": f"{pinged}, server string, cpu double",
        "counted": "Target string, n bigint, r double",
        "mapped": f"{pinged}, server string, cpu double, busy boolean, heat ?",
        "both": pinged,
    }


def test_behind_a_mistake_schemas_are_unknown_and_before_it_they_are_not() -> None:
    q = Query("q")
    s = q.source("s", "a int")
    s.map("b", name="broken").filter("c > 1", name="behind")
    assert set(schemas(q.diagram())) == {Arrow("s")}

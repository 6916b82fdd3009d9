"""What the engine relies on in Spark, pinned: hashes, the place of the watermark, settings, and errors that name a
box."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.engine.compiler import CompiledStage, compile_stage
from anabranch.engine.connector import LOCAL_FILES, NOWHERE
from anabranch.engine.hashing import identity_hash
from anabranch.engine.run import journal_frame
from anabranch.engine.session import REQUIRED, SparkSettings, open_session, worker_sockets
from anabranch.engine.watermark import control_rows_pass, punctuated
from anabranch.model import identity
from anabranch.query.files import load
from anabranch.query.graph import stages
from anabranch.query.schemas import schemas
from tests.spark import QUICK_JVM, running

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return open_session(SparkSettings(master="local[2]", conf={"spark.driver.extraJavaOptions": QUICK_JVM}))


VALUES: dict[str, list[object]] = {
    "boolean": [True, False, None],
    "tinyint": [-128, 0, 127, None],
    "smallint": [-32768, 0, 7, None],
    "int": [-(2**31), 0, 2**31 - 1, None],
    "bigint": [-(2**63), 0, 2**63 - 1, None],
    "float": [0.0, -0.0, 1.5, math.nan, math.inf, None],
    "double": [0.0, -0.0, 0.1, math.nan, -math.inf, None],
    "string": ["", "a", "ab", "grün", "x" * 100, None],
    "binary": [b"", b"\x00", b"abc" * 40, None],
    "date": [date(1970, 1, 1), date(2026, 11, 15), None],
    "timestamp": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 11, 15, 1, 2, 3, 4, tzinfo=UTC), None],
    "decimal(10,2)": [Decimal("0.00"), Decimal("-12345678.90"), None],
    "decimal(38,4)": [Decimal(0), Decimal("1234567890123456789012.3456"), Decimal(-1), Decimal(-128), None],
}


@pytest.mark.parametrize("type_name", VALUES)
def test_spark_hashes_identities_as_the_model_defines(session: SparkSession, type_name: str) -> None:
    values = VALUES[type_name]
    table = pa.table({"v": pa.array(values, arrow_schema([("v", type_name)]).field("v").type)})
    column = identity_hash("window", "box", [("int", F.lit(7)), (type_name, F.col("v"))])
    found = [row.h for row in session.createDataFrame(table).select(column.alias("h")).collect()]
    assert found == [identity.identity_hash("window", "box", [("int", 7), (type_name, _plain(v))]) for v in values]


def _plain(value: object) -> object:
    """Dates and times as the numbers that a stream holds."""
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def test_null_in_another_place_is_another_group() -> None:
    one = identity.identity_hash("window", "w", [("string", None), ("string", "a")])
    other = identity.identity_hash("window", "w", [("string", "a"), ("string", None)])
    assert one != other


@pytest.mark.parametrize("key", REQUIRED)
def test_a_setting_that_carries_a_guarantee_cannot_be_changed(key: str) -> None:
    with pytest.raises(ab.ConfigError, match=key.replace(".", r"\.")):
        SparkSettings(conf={key: "something else"}).effective()


def test_any_other_setting_is_the_users(session: SparkSession) -> None:
    assert SparkSettings(conf={"spark.sql.shuffle.partitions": "7"}).effective()["spark.sql.shuffle.partitions"] == "7"


def test_spark_takes_the_longest_directory_for_sockets_that_we_give_it(session: SparkSession) -> None:
    jvm = session.sparkContext._jvm
    assert jvm is not None
    setting = getattr(jvm.org.apache.spark.internal.config, "Python$").__getattr__("MODULE$")
    entry = setting.PYTHON_UNIX_DOMAIN_SOCKET_DIR()

    def taken(directory: str) -> bool:
        conf = jvm.org.apache.spark.SparkConf(False).set(entry.key(), directory)
        try:
            conf.get(entry)
        except Exception:
            return False
        return True

    longest = "/tmp/" + "x" * 55
    assert worker_sockets(Path(longest)) != worker_sockets(Path(longest + "x"))
    assert (taken(longest), taken(longest + "xx")) == (True, False)


def compile_one(session: SparkSession, query: ab.Query) -> CompiledStage:
    diagram = query.checked()
    columns = {s.name: arrow_schema((c.name, c.type or "") for c in s.schema) for s in diagram.sources}
    stage = stages(diagram)[0]
    return compile_stage(
        diagram,
        stage,
        lambda name: journal_frame(session, columns[name], journals=NOWHERE, stream=name, stage=stage.name),
    )


def filtered_window() -> ab.Query:
    query = ab.Query("q")
    numbers = query.source("numbers", "k string, x int")
    query.output("sums", numbers.filter("x > 1").aggregate("sum(x) AS x", by="k", window="10s"))
    return query


def test_a_filter_below_the_watermark_is_noticed(session: SparkSession) -> None:
    """Every plan that runs is looked at: such a filter would drop the control rows, and windows would never close."""
    schema = arrow_schema([("x", "int")])
    journal = journal_frame(session, schema, journals=NOWHERE, stream="numbers", stage="s")
    right = punctuated(journal).filter("x > 1")
    wrong = punctuated(journal.filter("x > 1"))
    assert control_rows_pass(right._jdf.queryExecution().analyzed())
    assert not control_rows_pass(wrong._jdf.queryExecution().analyzed())


def test_spark_names_the_box_that_it_cannot_type(session: SparkSession) -> None:
    query = ab.Query("q")
    numbers = query.source("numbers", "k string, x int")
    query.output("out", numbers.map("unheard_of(x) AS y", name="strange"))
    with pytest.raises(ab.QueryError, match="strange") as caught:
        compile_one(session, query)
    assert (caught.value.problems[0].code, caught.value.problems[0].box) == ("spark", "strange")
    assert "unheard_of" in caught.value.problems[0].message


def test_a_type_that_streams_do_not_have_is_refused_with_its_box(session: SparkSession) -> None:
    query = ab.Query("q")
    numbers = query.source("numbers", "k string, x int")
    query.output("out", numbers.map("named_struct('a', x) AS y", name="nested"))
    with pytest.raises(ab.QueryError, match="nested"):
        compile_one(session, query)


def test_a_filter_below_a_window_stays_above_the_watermark(session: SparkSession) -> None:
    compiled = compile_one(session, filtered_window())
    text = compiled.frame._sc._jvm.PythonSQLUtils.explainString(compiled.frame._jdf.queryExecution(), "simple")
    lines = text.splitlines()
    watermark = next(number for number, line in enumerate(lines) if "EventTimeWatermark" in line)
    filters = [number for number, line in enumerate(lines) if "Filter" in line]
    assert filters
    assert max(filters) < watermark, text


def test_a_group_column_is_spelled_as_its_source_spells_it(session: SparkSession) -> None:
    query = ab.Query("q")
    orders = query.source("orders", "order string, x int")
    query.output("out", orders.aggregate("sum(x) AS x", by="ORDER", window="10s"))
    (arrow,) = [output.input for output in query.checked().outputs]
    explained = [column.name for column in schemas(query.checked())[arrow]]
    assert compile_one(session, query).schemas["out"].names == explained == ["order", "x"]


def test_the_query_of_the_readme_compiles_into_two_stages(session: SparkSession) -> None:
    path = Path(__file__).parents[2] / "examples" / "slow_paths.py"
    names = {stage.root for stage in stages(load(path).checked())}
    assert len(names) == 2


@pytest.mark.parametrize("aggregated", [False, True])
def test_a_long_chain_is_planned_in_pieces(session: SparkSession, *, aggregated: bool) -> None:
    """As one piece a chain of 200 boxes takes Spark longer to plan, in every batch, than anyone waits."""
    query = ab.Query("q")
    stream = query.source("numbers", "x bigint")
    for number in range(20):
        stream = stream.filter(f"x <> {number}").map("x + 1 AS x")
    query.output("out", stream.aggregate("sum(x) AS x", window="1s") if aggregated else stream)
    node = compile_one(session, query).frame._jdf.queryExecution().analyzed()
    pieces = [0]
    while node.children().size():
        if node.nodeName() == "Repartition":
            assert not node.shuffle()  # no row moves
            pieces.append(0)
        elif node.nodeName() in ("Filter", "Project"):
            pieces[-1] += 1
        node = node.children().apply(0)
    assert len(pieces) == 3
    assert max(pieces) <= limits.PLAN_STEPS + 4  # and what a journal and a box of its own add


def test_no_predicate_is_copied_down_through_maps(session: SparkSession) -> None:
    """It would double with each Map that reads a column twice, and Spark would never have planned the batch."""
    frame = session.range(10).withColumnRenamed("id", "x")
    for _ in range(8):
        frame = frame.selectExpr("x + x AS x")
    plan = frame.filter("x > 0")._jdf.queryExecution().optimizedPlan()
    assert len(plan.toString()) < 2_000


def test_a_query_that_only_spark_refuses_leaves_its_state_directory_free(session: SparkSession, tmp_path: Path) -> None:
    def query(expression: str) -> ab.Query:
        made = ab.Query("q")
        made.output("out", made.source("numbers", "x int").map(f"{expression} AS y"))
        return made

    with pytest.raises(ab.QueryError, match="unheard_of"), running(query("unheard_of(x)"), tmp_path / "state"):
        pass
    with running(query("x + 1"), tmp_path / "state") as node:
        assert node.failure() is None


def test_hadoop_settings_travel_without_their_origins_and_stay(session: SparkSession) -> None:
    """They go with every batch that has state, and where each came from is most of what they weigh."""
    jvm: Any = session.sparkContext._jvm

    def sent_bytes(settings: Any) -> int:
        sent = jvm.java.io.ByteArrayOutputStream()
        settings.write(jvm.java.io.DataOutputStream(sent))
        return int(sent.size())

    fresh = jvm.org.apache.hadoop.conf.Configuration()
    ours = session._jsparkSession.sessionState().newHadoopConf()
    assert ours.size() >= fresh.size()
    assert ours.get("fs.s3a.impl") == fresh.get("fs.s3a.impl") is not None
    assert ours.get("fs.file.impl") == LOCAL_FILES
    assert sent_bytes(ours) < 0.75 * sent_bytes(fresh)

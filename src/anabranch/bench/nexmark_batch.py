"""The queries of Nexmark once more, over whole tables in DuckDB: what the streams must give, written independently.

Where ``examples/nexmark`` says a time bound, it is said here, too. Results are compared as multisets by DuckDB itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from anabranch.errors import ConfigError

_OFFERS: Final = """
    SELECT A.*, B.bidder, B.price, B.dateTime AS bidTime FROM auction A JOIN bid B ON A.id = B.auction
    WHERE B.dateTime BETWEEN A.dateTime AND A.expires"""

BATCH: Final[Mapping[str, str]] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(24, 3)) AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
        AND A.dateTime - P.dateTime < INTERVAL 10 SECOND AND P.dateTime - A.dateTime < INTERVAL 10 SECOND""",
    "q4": f"""
        WITH sold AS (
            SELECT id, category, max(price) AS final, max(bidTime) + INTERVAL 1 SECOND AS closed
            FROM ({_OFFERS}) GROUP BY id, category)
        SELECT category, time_bucket(INTERVAL 10 SECOND, closed) + INTERVAL 10 SECOND AS window_end, avg(final) AS final
        FROM sold GROUP BY ALL""",
    "q5": """
        WITH counts AS (
            SELECT auction, count(*) AS num, starttime FROM (
                SELECT auction, unnest([time_bucket(INTERVAL 2 SECOND, dateTime) - INTERVAL 2 SECOND * i
                                        FOR i IN range(5)]) AS starttime FROM bid)
            GROUP BY auction, starttime)
        SELECT auction, num FROM counts QUALIFY num = max(num) OVER (PARTITION BY starttime)""",
    "q7": """
        WITH highest AS (
            SELECT max(price) AS maxprice, time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS ended
            FROM bid GROUP BY ended)
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B JOIN highest H ON B.price = H.maxprice
        WHERE B.dateTime BETWEEN H.ended - INTERVAL 10 SECOND AND H.ended""",
    "q8": """
        SELECT DISTINCT P.id, P.name, time_bucket(INTERVAL 10 SECOND, P.dateTime) AS starttime
        FROM person P JOIN auction A ON P.id = A.seller
        AND time_bucket(INTERVAL 10 SECOND, P.dateTime) = time_bucket(INTERVAL 10 SECOND, A.dateTime)""",
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, bidder, price,
               bidTime FROM ({_OFFERS}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bidTime) = 1""",
    "q11": """
        WITH marked AS (
            SELECT bidder, dateTime, CASE WHEN dateTime - lag(dateTime) OVER each < INTERVAL 10 SECOND THEN 0 ELSE 1 END
                   AS begins FROM bid WINDOW each AS (PARTITION BY bidder ORDER BY dateTime)),
        numbered AS (
            SELECT bidder, dateTime, sum(begins) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING)
                   AS number FROM marked)
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECOND AS endtime
        FROM numbered GROUP BY bidder, number""",
    "q12": """
        SELECT bidder, count(*) AS bid_count, time_bucket(INTERVAL 10 SECOND, dateTime) AS starttime,
               time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS endtime FROM bid GROUP BY ALL""",
    "q13": """
        SELECT auction, bidder, price, dateTime, value FROM bid
        JOIN (SELECT range AS key, CAST(range AS VARCHAR) AS value FROM range(10000)) ON auction % 10000 = key""",
    "q14": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(24, 3)) AS price,
               CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END
               AS bidTimeType, dateTime, extra, len(list_filter(string_split(extra, ''), lambda c: c = 'c')) AS c_counts
        FROM bid WHERE 908 * price > 1000000000 AND 908 * price < 50000000000""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid QUALIFY row_number() OVER (
            PARTITION BY bidder, auction, time_bucket(INTERVAL 10 SECOND, dateTime) ORDER BY dateTime DESC) = 1""",
    "q19": """
        SELECT auction, bidder, price, dateTime, extra, row_number() OVER best AS rank_number,
               time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS ended
        FROM bid WINDOW best AS (
            PARTITION BY auction, time_bucket(INTERVAL 10 SECOND, dateTime) ORDER BY price DESC, dateTime)
        QUALIFY rank_number <= 10""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra, A.itemName, A.description,
               A.initialBid, A.reserve, A.dateTime AS opened, A.expires, A.seller, A.category
        FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10
        AND A.dateTime - B.dateTime < INTERVAL 10 SECOND AND B.dateTime - A.dateTime < INTERVAL 10 SECOND""",
    "q21": """
        SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
               WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE string_split(url, 'channel_id=')[2] END AS channel_id
        FROM bid WHERE url LIKE '%&channel_id=%' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, string_split(url, '/')[4] AS dir1, string_split(url, '/')[5] AS dir2,
               string_split(url, '/')[6] AS dir3 FROM bid""",
}


class Batch:
    """The three tables in DuckDB, and each query over them."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        try:
            self._database: Any = import_module("duckdb").connect()
        except ImportError as error:
            raise ConfigError("DuckDB is not installed.", remedy="pip install 'anabranch[duckdb]'.") from error
        for name, table in tables.items():
            self._database.register(name, _in_utc(table))

    def count(self, query: str) -> int:
        """How many rows come out."""
        return self._number(f"SELECT count(*) FROM ({BATCH[query]})")

    def differences(self, query: str, found: pa.Table) -> tuple[int, int]:
        """How many rows of the batch were not found, and how many were found that it does not have."""
        self._database.register("found", _in_utc(found))
        self._database.execute(f"CREATE OR REPLACE TEMP TABLE expected AS {BATCH[query]}")
        columns = ", ".join(f'"{name}"' for name in found.column_names)
        sides = (f"SELECT {columns} FROM expected", f"SELECT {columns} FROM found")
        missing, added = (
            self._number(f"SELECT count(*) FROM ({one} EXCEPT ALL {other})") for one, other in (sides, sides[::-1])
        )
        self._database.unregister("found")
        return missing, added

    def _number(self, sql: str) -> int:
        ((number,),) = self._database.execute(sql).fetchall()
        return int(number)


def _in_utc(table: pa.Table) -> pa.Table:
    """Times without a zone, so that no setting of the database changes what they mean."""
    for index, field in enumerate(table.schema):
        if pt.is_timestamp(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.timestamp("us")))
    return table

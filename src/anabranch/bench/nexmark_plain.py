"""The queries of Nexmark in Spark's own streaming SQL, where it has them: what a node is measured against.

Missing are those for which a stream of plain Spark has no words: the winning bid (q9) and the top ten (q19) are window
functions, and averages of closing prices (q4) would follow a session behind a join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLAIN: Final[Mapping[str, str]] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P
        ON A.seller = P.id AND A.dateTime > P.dateTime - INTERVAL 10 SECONDS
           AND A.dateTime < P.dateTime + INTERVAL 10 SECONDS
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q5": """
        WITH counts AS (
            SELECT auction, window, count(*) AS num FROM bid
            GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')),
        most AS (SELECT window AS best, max(num) AS maxn FROM counts GROUP BY window)
        SELECT auction, num FROM counts JOIN most ON window = best AND num >= maxn""",
    "q7": """
        WITH highest AS (
            SELECT max(price) AS maxprice, window FROM bid GROUP BY window(dateTime, '10 seconds'))
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B JOIN highest H
        ON B.price = H.maxprice AND B.dateTime >= H.window.start AND B.dateTime <= H.window.end""",
    "q8": """
        WITH P AS (SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds')),
        A AS (SELECT seller, window AS opened FROM auction GROUP BY seller, window(dateTime, '10 seconds'))
        SELECT id, name, window.start AS starttime FROM P JOIN A ON id = seller AND window = opened""",
    "q11": """
        SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
        FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    "q12": """
        SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
        FROM bid GROUP BY bidder, window(dateTime, '10 seconds')""",
    "q13": """
        SELECT auction, bidder, price, dateTime, value FROM bid
        JOIN (SELECT id AS key, string(id) AS value FROM range(10000)) ON mod(auction, 10000) = key""",
    "q14": """
        SELECT auction, bidder, 0.908 * price AS price,
               CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
                    WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END
               AS bidTimeType, dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q18": """
        WITH latest AS (
            SELECT bidder, auction, max(dateTime) AS last, window FROM bid
            GROUP BY bidder, auction, window(dateTime, '10 seconds'))
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra FROM bid B JOIN latest L
        ON B.bidder = L.bidder AND B.auction = L.auction AND B.dateTime = L.last
           AND B.dateTime >= L.window.start AND B.dateTime <= L.window.end""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra, A.itemName, A.description,
               A.initialBid, A.reserve, A.dateTime AS opened, A.expires, A.seller, A.category
        FROM bid B JOIN auction A ON B.auction = A.id AND B.dateTime > A.dateTime - INTERVAL 10 SECONDS
           AND B.dateTime < A.dateTime + INTERVAL 10 SECONDS WHERE A.category = 10""",
    "q21": """
        SELECT auction, bidder, price, channel,
               CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                    WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
                    OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
               split_part(url, '/', 6) AS dir3 FROM bid""",
}

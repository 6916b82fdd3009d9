-- q18. Find last bid: of each person on each auction.
-- The time bound: the last one of every ten seconds.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE VIEW latest AS
SELECT bidder, auction, max(dateTime) AS dateTime, window_end AS ended
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, auction, window_start, window_end;

CREATE OUTPUT q18 AS
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra
FROM bid AS B JOIN latest AS L
ON B.bidder = L.bidder AND B.auction = L.auction AND B.dateTime = L.dateTime
WHERE B.dateTime BETWEEN L.ended - INTERVAL '10' SECOND AND L.ended;

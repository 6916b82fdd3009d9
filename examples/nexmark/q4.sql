-- q4. Average price for a category: of the winning bids.
-- The time bound: an auction is over a second after its last bid, and averages are of those that end within ten seconds.

CREATE SOURCE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:auction,events=1000000');

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE VIEW offers AS
SELECT A.id, A.category, B.price
FROM auction AS A JOIN bid AS B ON A.id = B.auction WITHIN INTERVAL '1' SECOND
WHERE B.dateTime BETWEEN A.dateTime AND A.expires;

CREATE VIEW sold AS
SELECT id, category, max(price) AS final, window_end AS closed
FROM SESSION(TABLE offers, DESCRIPTOR(_stime), INTERVAL '1' SECOND)
GROUP BY id, category, window_start, window_end;

CREATE OUTPUT q4 AS
SELECT category, window_end, avg(final) AS final
FROM TUMBLE(TABLE sold, DESCRIPTOR(closed), INTERVAL '10' SECOND)
GROUP BY category, window_start, window_end;

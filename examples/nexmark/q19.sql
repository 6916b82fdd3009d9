-- q19. Auction top ten: the ten highest bids on each auction, the earlier of equal ones first.
-- The time bound: of every ten seconds. How many bids there are by their first digits tells which can be among the ten;
-- only these are compared with each other.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE VIEW ranged AS
SELECT auction, bidder, price, dateTime, extra,
       10 * length(CAST(price AS STRING)) + CAST(substring(CAST(price AS STRING), 1, 1) AS INT) AS digits
FROM bid;

CREATE VIEW counted AS
SELECT auction, digits, window_end AS ended, count(*) AS num
FROM TABLE(TUMBLE(TABLE ranged, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY auction, digits, window_start, window_end;

CREATE VIEW high AS
SELECT low.auction, low.digits, low.ended, sum(CASE WHEN up.digits > low.digits THEN up.num ELSE 0 END) AS above
FROM counted AS low JOIN counted AS up
ON low.auction = up.auction AND low.ended = up.ended AND up.digits >= low.digits
GROUP BY low.auction, low.digits, low.ended
HAVING above < 10;

CREATE VIEW candidates AS
SELECT r.auction, r.bidder, r.price, r.dateTime, r.extra, h.ended
FROM ranged AS r JOIN high AS h ON r.auction = h.auction AND r.digits = h.digits
WHERE r.dateTime >= h.ended - INTERVAL '10' SECOND AND r.dateTime < h.ended;

CREATE OUTPUT q19 AS
SELECT c.auction, c.bidder, c.price, c.dateTime, c.extra, count(*) AS rank_number, c.ended
FROM candidates AS c JOIN candidates AS d
ON c.auction = d.auction AND c.ended = d.ended
   AND (d.price > c.price OR (d.price = c.price AND d.dateTime <= c.dateTime))
GROUP BY c.auction, c.bidder, c.price, c.dateTime, c.extra, c.ended
HAVING rank_number <= 10;

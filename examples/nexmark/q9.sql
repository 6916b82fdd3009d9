-- q9. Winning bids: the highest bid of every auction, the earliest of equal ones.
-- The time bound: an auction is over a second after its last bid.

CREATE SOURCE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:auction,events=1000000');

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE VIEW offers AS
SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category,
       B.bidder, B.price, B.dateTime AS bidTime
FROM auction AS A JOIN bid AS B ON A.id = B.auction WITHIN INTERVAL '1' SECOND
WHERE B.dateTime BETWEEN A.dateTime AND A.expires;

CREATE VIEW first_offers AS SELECT DISTINCT ON (id, price) WITHIN INTERVAL '1' SECOND * FROM offers;

CREATE VIEW best AS
SELECT id, max(price) AS price
FROM SESSION(TABLE offers, DESCRIPTOR(_stime), INTERVAL '1' SECOND)
GROUP BY id, window_start, window_end;

CREATE OUTPUT q9 AS
SELECT f.* FROM first_offers AS f JOIN best AS b ON f.id = b.id AND f.price = b.price WITHIN INTERVAL '2' SECOND;

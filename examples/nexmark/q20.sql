-- q20. Expand bids with auctions: those of category 10.
-- The time bound: an auction is remembered for ten seconds.

CREATE SOURCE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:auction,events=1000000');

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE OUTPUT q20 AS
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra,
       A.itemName, A.description, A.initialBid, A.reserve, A.dateTime AS opened, A.expires, A.seller, A.category
FROM bid AS B JOIN auction AS A ON B.auction = A.id WITHIN INTERVAL '10' SECOND
WHERE A.category = 10;

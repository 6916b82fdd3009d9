-- q2. Selection: the bids on some auctions.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE OUTPUT q2 AS
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;

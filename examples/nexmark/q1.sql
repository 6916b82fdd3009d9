-- q1. Currency conversion: every price in euros.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE OUTPUT q1 AS
SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid;

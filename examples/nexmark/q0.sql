-- q0. Pass through: what a query costs that does nothing.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE OUTPUT q0 AS
SELECT auction, bidder, price, dateTime, extra FROM bid;

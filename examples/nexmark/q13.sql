-- q13. Bounded side input: each bid with a value from a table that does not change.

CREATE SOURCE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:bid,events=1000000');

CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING) WITH (file = 'side_input.csv');

CREATE OUTPUT q13 AS
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM bid AS B JOIN side_input FOR SYSTEM_TIME AS OF B.dateTime AS S ON mod(B.auction, 10000) = S.key;

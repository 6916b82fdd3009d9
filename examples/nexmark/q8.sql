-- q8. Monitor new users: who came and opened an auction within the same ten seconds.

CREATE SOURCE person (
    id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP,
    extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:person,events=1000000');

CREATE SOURCE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:auction,events=1000000');

CREATE OUTPUT q8 AS
SELECT P.id, P.name, P.starttime
FROM (
  SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) P
JOIN (
  SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) A
ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime;

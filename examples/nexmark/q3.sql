-- q3. Local item suggestion: who sells in category 10 in three states.
-- The time bound: a person is remembered for ten seconds.

CREATE SOURCE person (
    id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP,
    extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:person,events=1000000');

CREATE SOURCE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) WITH (time = 'dateTime', feed = 'nexmark:auction,events=1000000');

CREATE OUTPUT q3 AS
SELECT P.name, P.city, P.state, A.id
FROM auction AS A JOIN person AS P ON A.seller = P.id WITHIN INTERVAL '10' SECOND
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');

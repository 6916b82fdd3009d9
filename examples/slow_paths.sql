-- The query of slow_paths.py, written in SQL.
CREATE SOURCE load (server STRING, cpu DOUBLE);
CREATE SOURCE ping (source STRING, target STRING, rtt_ms DOUBLE);

CREATE VIEW slow AS SELECT * FROM ping WHERE rtt_ms > 1000;

CREATE OUTPUT network_problems AS
SELECT * FROM slow JOIN load ON target = server WITHIN INTERVAL '1' SECOND WHERE cpu < 0.8;

CREATE OUTPUT slow_per_target AS
SELECT target, count(*) AS n, avg(rtt_ms) AS rtt_ms
FROM HOP(TABLE slow, DESCRIPTOR(_stime), INTERVAL '5' SECOND, INTERVAL '10' SECOND)
GROUP BY target, window_start, window_end;

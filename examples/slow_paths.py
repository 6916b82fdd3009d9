"""Is a path slow because of the network, or because the server is busy?

Two inputs: the load of servers, and the round trips of pings. A slow ping is joined with the load of its target at
about the same time. If the server was not busy, the network is to blame. Beside it, the slow pings are counted per
target.
"""

from __future__ import annotations

import anabranch as ab

q = ab.Query("slow_paths")
load = q.source("load", "server string, cpu double")
ping = q.source("ping", "source string, target string, rtt_ms double")
slow = ping.filter("rtt_ms > 1000")
network, busy = slow.join(load, on="target = server", within="1s").filter("cpu < 0.8", otherwise=True)
per_target = slow.aggregate("count(*) AS n, avg(rtt_ms) AS rtt_ms", by="target", window="10s", every="5s")
q.output("network_problems", network)
q.output("slow_per_target", per_target)

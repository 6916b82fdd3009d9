"""Every bound in the system, with its unit and the reason for it.

Nothing here grows for ever: a queue, a message, a wait and a log each have a largest size, and what happens there is
part of the design (push back, cut off, or stop with a clear status), never a surprise.
"""

from __future__ import annotations

from typing import Final

# --- rows and messages ---------------------------------------------------------------------------------------------

SEGMENT_ROWS: Final = 65_536
"""Rows in one stored segment. A Spark batch is cut between segments, so this is also the smallest unit of a row
limit."""

SEGMENT_BYTES: Final = 32 << 20
"""Bytes in one stored segment: half of what a gRPC message may hold, so that one segment is always one message."""

MESSAGE_BYTES: Final = 64 << 20
"""Bytes in one gRPC message."""

RANGE_ROWS: Final = 5_000
"""Rows of a batch for which one more task is worth it: to start a task takes some milliseconds."""

BATCH_ROWS: Final = 1_000_000
"""Rows that one Spark micro-batch reads. At 100 bytes a row this is 100 MB through the driver, a tenth of its heap."""

BATCH_BYTES: Final = 4 << 30
"""Bytes of rows that one micro-batch may make: four times what Spark's driver collects unless it is told otherwise
(``spark.driver.maxResultSize``). The node holds them in memory until they are logged."""

SNAPSHOT_PIECE_BYTES: Final = 4 << 20
"""Bytes of one message of a node's state, as a peer fetches it: both sides hold a few of them in memory."""

ORIGINS: Final = 10_000
"""Origins in one query (lanes and boxes that make tuples): a segment stores one punctuation for each that reaches
it."""

VOIDS: Final = 1 << 32
"""Numbers that one void gives up. More than any client can have sent, and far from where 64 bits end: a lane whose
numbers were used up could never take a row again."""

WINDOWS: Final = 1_000
"""Windows of one Aggregate that a tuple may lie in: Spark makes a row and an expression of its plan for each."""

WINDOW_ROWS: Final = 1_000_000
"""Tuples in one window of an Aggregate that counts: as many as a batch reads. They are held until the window is full,
and then pass through one Python process."""

SUM_DIGITS: Final = 28
"""Decimal digits of one value in an exact sum. A decimal of Spark has 38, so that 10^10 values can be added before
their sum would not fit."""

SUM_SCALE: Final = 9
"""Of these digits, how many are after the point if the Aggregate does not say so: enough for a billionth, and 18 are
left before the point, which is more than a double can tell apart."""

LARGEST_SUM_SCALE: Final = 18
"""Digits after the point that an Aggregate may ask for: with more of them, a fraction would not fit into 64 bits."""

TABLE_ROWS: Final = 1_000_000
"""Rows of one static table: Spark spreads it to all its workers anew in each batch."""

TABLE_BYTES: Final = 256 << 20
"""Bytes of one static table, as Arrow. The node holds it, and so does Spark's driver."""

TABLE_INLINE_ROWS: Final = 1_000
"""Rows of a table that is written in the query itself: it travels, and is kept, with the query."""

WINDOW_PART_BYTES: Final = 256 << 10
"""Bytes that a part of the state of a box that works in order should have. It is read and written as a whole: in
smaller ones, taking them apart would cost more than the bytes."""

WINDOW_PARTS: Final = 4_096
"""Such parts in a partition of the state, which has 1 GiB then; what comes on top makes the parts larger. The connector
knows this number, too (``jvm/anabranch/Pack.java``)."""

PLAN_STEPS: Final = 16
"""Steps (Filters, Maps ...) of a stage that Spark plans as one piece. Its time for a piece grows with the cube of their
number: 14 s in each batch of a chain of 200, and half a second for the same chain in pieces."""

SCANS: Final = 64
"""Places of one stage that read a journal. Each is a source of Spark, which starts and asks them one by one: a stage
with 32 takes a minute to start, on two cores."""

ORDERED_BYTES: Final = 256 << 20
"""Bytes of tuples that a subscription in canonical order holds until all origins have passed them: what a client may
take of its machine without being asked."""

DIGEST_INTERVAL_US: Final = 10_000_000
"""The interval of stream time for which copies of a stream are compared: an alarm says where they differ this
precisely, and a copy is not compared for at most this long after it began."""

COMPARE_BACK_ROWS: Final = 200_000
"""So many of the last rows that it had written of an output a node that starts compares: to add them up takes a part
of a second."""

COMPARE_BACK_BYTES: Final = 64 << 20
"""No more bytes than this, if these are fewer rows."""

DIGESTS: Final = 65_536
"""Digests of one copy that are kept, over all its origins: with one origin a copy may be a week behind another and is
still compared. 24 bytes each."""

# --- logs ----------------------------------------------------------------------------------------------------------

LOG_BYTES: Final = 8 << 30
"""Bytes that one log may hold for its named readers. Past it the slowest of several is cut off, the last pushes
back."""

LOG_RETENTION_US: Final = 24 * 3600 * 1_000_000
"""How long a log without named readers keeps its segments."""

READERS: Final = 256
"""Named readers of one log."""

PRODUCERS: Final = 1_000
"""Producer ids that one owned lane tells apart. The longest silent one is forgotten first. Each adds 50 bytes to every
push of the lane, because the lane's state is written with the rows."""

LANE_HELD_BYTES: Final = 64 << 20
"""Bytes of entries of one source that wait for a majority of its entry points. Past it pushes wait: twice what the
largest push takes."""

LANE_KEPT_ENTRIES: Final = 20_000
"""Entries of one lane that are kept for an entry point that is away or loses its disk: half an hour of ten pushes a
second, and 4 MB of memory. One that lacks more begins anew behind a hole, and its readers take from the other copies
what it lacks."""

LANE_KEPT_BYTES: Final = 1 << 30
"""The same in bytes, for all lanes of a source."""

LETTER_BYTES: Final = 8 << 20
"""Bytes of entries after which one message between entry points ends: a slow peer answers before it counts as away."""

TRIM_SOON_BYTES: Final = 8 << 20
"""Bytes of a log above which it is trimmed every second, as is one that is a quarter full. A smaller one is trimmed ten
times less often: a trim is a transaction, which costs more than what it frees."""

DISK_RESERVE_BYTES: Final = 256 << 20
"""Free space below which intake stops: what is left lets the running batches, checkpoints and trims finish."""

# --- links ---------------------------------------------------------------------------------------------------------

RELAY_BYTES: Final = 16 << 20
"""Bytes that an emulated link holds in one direction of a connection: 80 MB/s with a delay of 200 ms. Past it the
sender is held back."""

RELAY_QUEUE_S: Final = 0.1
"""How long bytes may wait for a link with a limited rate, as in the queue of a router. Past it the sender is held
back."""

SPARK_CONNECTIONS: Final = 512
"""Connections of Spark to one node: one for each stage that waits for news and for each task that reads."""

OPEN_CALLS: Final = 256
"""Calls of producers and of other entry points that a node keeps open between their messages: each has a thread. What
comes beyond is answered once for each call."""

RELAY_CONNECTIONS: Final = 256
"""Connections through one relay. Nodes have one each; the rest are those that were given up during a cut."""

# --- experiments ---------------------------------------------------------------------------------------------------

DETERMINANTS_ROWS: Final = 10_000
"""Tuples whose determinants go in one message, about: some 400 kB of JSON."""

DETERMINANTS_KEPT: Final = 1_000
"""Messages with determinants that are kept of one log of one partner. They stand for what a backup would keep."""

# --- waits ---------------------------------------------------------------------------------------------------------

BOUNDARY_INTERVAL_US: Final = 1_000_000
"""How often an owned lane with nothing to say sends a boundary: each costs a micro-batch downstream, and one more where
a window ends."""

AWAY_US: Final = 5_000_000
"""How long the housekeeper may be late before that time counts as nobody's silence: the process was suspended, or the
clock was set forward."""

BATCH_INTERVAL_US: Final = 1_000_000
"""How far apart the micro-batches of a stage begin, at most, while few rows wait: a stage whose batches take longer
than a tenth of it is busy for more than a tenth of the time (``PACE_BATCHES``), and a trickle waits no longer."""

PACE_BATCHES: Final = 10
"""So many times what a batch of each stage of the host takes they begin apart, up to that: with a trickle all stages of
a host together are busy for a tenth of the time."""

PACE_ROWS: Final = 100
"""Rows for which a batch begins at once. They cost it hardly more than one row does; a flow of 200 rows a second is not
held back for longer than half of ``BATCH_INTERVAL_US``, and a faster one for less."""

UNREAD_BOUNDARIES_S: Final = 5.0
"""How far apart a stage promises how far it is where nobody reads what it makes: each promise is a transaction. Who
begins to read hears of it at once."""

UPKEEP_WAIT_S: Final = 10.0
"""How long what Spark has to know of and nobody waits for may wait, to share the batch of rows or results: a stage at
rest has six batches a minute, and its journals and its state keep what these ten seconds bring."""

POLL_MS: Final = 20
"""How long a Spark query without news waits before it asks its journals again."""

NEWS_WAIT_S: Final = 10.0
"""How long the node holds such a question when it knows of no news: news ends the wait, and so does a stop, so an idle
query costs next to nothing."""

SPARK_ANSWER_S: Final = 60.0
"""How long Spark waits for the next byte of an answer before the node counts as gone: a held question, and a node that
was paused for a while."""

SPARK_STALL_S: Final = 300.0
"""How long a task may take nothing of the rows that are sent to it: it works on those that it has, or its executor is
gone."""

SPARK_IDLE_S: Final = 60.0
"""How long a connection of Spark without a question stays open: batches that follow each other use it again."""

SPARK_HELLO_S: Final = 5.0
"""How long a connection may take to show its token."""

FOLLOW_WAIT_S: Final = 0.5
"""How long a following reader waits before it looks whether its client has gone."""

COPY_QUIET_S: Final = 5.0
"""How long a copy that a replica reads says nothing when there is nothing to say. Its end, and a stop, end the wait."""

ACKNOWLEDGE_S: Final = 1.0
"""How often a node is told how much of its copies another one holds: it trims as often."""

TRIM_EVERY_S: Final = 1.0
"""How often logs are looked at that may soon have to be trimmed."""

TRIM_ALL_EVERY_S: Final = 10.0
"""How often all logs are trimmed."""

PUSH_WAIT_S: Final = 30.0
"""How long a push waits for room in a full log before it is refused."""

HELD_US: Final = 60_000_000
"""How long a lane counts as held at the horizon after a push that had to wait. A producer that is refused tries again
sooner; one that does not has given up, and its silence counts."""

LEAD_WAIT_S: Final = 2.0
"""How long a client waits for an entry point to lead a lane before it is told to try another one. An election takes a
second; a client that knows others must have found the right one after five."""

RELEASE_WAIT_S: Final = 5.0
"""How long a client waits for a majority to hold what it pushed, or for room, before it is told to send it again."""

COMPARE_EVERY_S: Final = 1.0
"""How often a node asks the other copies of an output that no node reads for digests: of what it has not compared, so
once in ``DIGEST_INTERVAL_US`` where all is well."""

HEARTBEAT_S: Final = 0.5
"""How often an entry point reminds a peer of what it owes it, or is owed."""

LETTER_S: Final = 2.5
"""How long an entry point waits for the answer to a letter, and a second more for each MB in it: one that sleeps is to
be found again soon after it woke up."""

PEER_BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits before an entry point that did not answer is written to again; the last one repeats."""

RELEASE_NEWS_S: Final = 0.15
"""How long the news that an entry is released may wait for the next entry, to go with it: what follows shows rows this
much later than who leads, and half of the letters are saved where rows come in a stream."""

LATER_S: Final = 1.0
"""How long an entry may wait to be given to a peer that is not needed for its majority, and at a peer to be shown when
its release is known: whatever else comes until then goes with it. The copy of who leads has shown it by then."""

SILENT_S: Final = 2.0
"""How long who leads a lane may be silent, where it would have said something, before a peer asks to lead in its place;
half as much longer, by chance, so that two do not ask at once."""

LOOK_S: Final = 1.0
"""How often an entry point looks after its lanes when nothing is due."""

FEED_TAKEOVER_US: Final = 5_000_000
"""How long a node with a feed may be gone before another one that has the same feed goes on with it. It takes less to
find another leader for the lane, so a feed does not move because of that."""

SOONEST_S: Final = 0.01
"""How soon it looks again, at most, when something is due that it could not do."""

STOP_WAIT_S: Final = 20.0
"""How long a clean stop waits for the running micro-batch before it goes on without it."""

NODE_START_WAIT_S: Final = 300.0
"""How long a node that someone waits for may take until it runs. Ten seconds on two idle cores; a minute was seen where
ten nodes started on them at once."""

NODE_STOP_WAIT_S: Final = 60.0
"""How long a whole node may take for a clean stop before it is killed: its feeds, its stages and its JVM have
``STOP_WAIT_S`` each. A killed node goes on where it was, too."""

RESTART_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Waits before a failed stage is started again, or Spark after its JVM died. After the last one without progress either
counts as failed."""

RECONNECT_BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits before a node that could not be reached, or that ended a call, is asked again."""

BUSY_TIMEOUT_MS: Final = 10_000
"""How long SQLite waits for another connection of this process."""

ORPHANED_S: Final = 10.0
"""How long a replica waits for a copy that has what it lacks, before it is rebuilt from a peer."""

SNAPSHOT_S: Final = 3600.0
"""How long a node keeps a copy of its state for a peer that fetches it: 8 GiB at 20 Mbit/s."""

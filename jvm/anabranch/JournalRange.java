package anabranch;

import org.apache.spark.sql.connector.read.InputPartition;

/** The segments after one and up to another: what one task reads. {@code sent} is null if it has to ask for them. */
final class JournalRange implements InputPartition {
    final long after;
    final long to;
    final SentRange sent;

    JournalRange(long after, long to, SentRange sent) {
        this.after = after;
        this.to = to;
        this.sent = sent;
    }
}

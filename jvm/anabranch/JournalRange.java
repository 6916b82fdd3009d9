package anabranch;

import org.apache.spark.sql.connector.read.InputPartition;

/** The segments after one and up to another: what one task reads. */
final class JournalRange implements InputPartition {
    final long after;
    final long to;

    JournalRange(long after, long to) {
        this.after = after;
        this.to = to;
    }
}

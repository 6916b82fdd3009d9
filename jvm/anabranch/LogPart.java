package anabranch;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The rows of one task, as Arrow messages. */
final class LogPart implements WriterCommitMessage {
    final byte[][] messages;

    LogPart(byte[][] messages) {
        this.messages = messages;
    }
}

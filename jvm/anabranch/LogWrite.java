package anabranch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One batch on its way into the log, on Spark's driver. */
final class LogWrite implements WriteBuilder, Write, StreamingWrite, BatchWrite {
    private final CaseInsensitiveStringMap options;
    private final StructType schema;
    private final String query;
    private final long began = System.nanoTime();

    LogWrite(LogicalWriteInfo info) {
        options = info.options();
        schema = info.schema();
        query = options.containsKey("query") ? options.get("query") : info.queryId();
    }

    public Write build() {
        return this;
    }

    public String description() {
        return "the log of stage " + options.get("stage");
    }

    public StreamingWrite toStreaming() {
        return this;
    }

    public BatchWrite toBatch() {
        return this;
    }

    /** Of a task that runs twice Spark takes one result: there is nothing to agree on. */
    public boolean useCommitCoordinator() {
        return false;
    }

    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
        return new LogWriterFactory(schema);
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
        return new LogWriterFactory(schema);
    }

    public void commit(long batch, WriterCommitMessage[] parts) {
        hand(batch, parts);
    }

    public void commit(WriterCommitMessage[] parts) {
        hand(options.getLong("batch", -1), parts);
    }

    public void abort(long batch, WriterCommitMessage[] parts) {
        // nothing has left this process
    }

    public void abort(WriterCommitMessage[] parts) {
        // nothing has left this process
    }

    public String toString() {
        return description();
    }

    /** Returns when the batch is durable. The node may make us wait: its log may be full. */
    private void hand(long batch, WriterCommitMessage[] parts) {
        ObjectNode question = Host.JSON.createObjectNode().put("v", 1).put("ask", "log");
        question.put("stage", options.get("stage"));
        question.put("life", options.getLong("life", -1));
        question.put("query", query);
        question.put("batch", batch);
        question.put("dropped", dropped());
        question.put("took_us", (System.nanoTime() - began) / 1000);
        try {
            new Host(options).hand(question.toString(), LogWriter.schemaMessage(schema), parts);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Rows that Spark dropped as late in the batch before this one: there must be none. */
    private long dropped() {
        StreamingQuery running = SparkSession.getDefaultSession().isDefined()
                ? ((SparkSession) SparkSession.getDefaultSession().get()).streams().get(query) : null;
        StreamingQueryProgress last = running == null ? null : running.lastProgress();
        long dropped = 0;
        if (last != null) {
            StateOperatorProgress[] operators = last.stateOperators();
            for (int index = 0; index < operators.length; index++) {
                dropped += operators[index].numRowsDroppedByWatermark();
            }
        }
        return dropped;
    }
}

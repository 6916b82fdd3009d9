package anabranch;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One scan of a journal by one streaming query, on Spark's driver. */
final class JournalStream implements MicroBatchStream, SupportsAdmissionControl {
    private final StructType schema;
    private final CaseInsensitiveStringMap options;
    private final String stream;
    private final Host host;

    JournalStream(StructType schema, CaseInsensitiveStringMap options) {
        this.schema = schema;
        this.options = options;
        stream = options.get("stream");
        host = new Host(options);
    }

    public Offset initialOffset() {
        return new JournalOffset(stream, 0);
    }

    public Offset deserializeOffset(String json) {
        return JournalOffset.fromJson(json);
    }

    public ReadLimit getDefaultReadLimit() {
        return ReadLimit.maxRows(maxRows());
    }

    public Offset latestOffset() {
        throw new UnsupportedOperationException("Spark asks for latestOffset(start, limit) instead.");
    }

    /** The node holds the question while it knows of no news. A query that is stopped interrupts it. */
    public Offset latestOffset(Offset start, ReadLimit limit) {
        ObjectNode question = Host.message("latest", stream);
        question.put("stage", options.get("stage"));
        question.put("scan", options.getInt("scan", 0));
        question.put("after", ((JournalOffset) start).seq);
        question.put("max_rows", maxRows());
        return new JournalOffset(stream, numbers(question)[0]);
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        ObjectNode question = Host.message("ranges", stream);
        question.put("after", ((JournalOffset) start).seq);
        question.put("to", ((JournalOffset) end).seq);
        question.put("at_most", options.getInt("partitions", 1));
        long[] cuts = numbers(question);
        InputPartition[] ranges = new InputPartition[cuts.length - 1];
        for (int index = 0; index < ranges.length; index++) {
            ranges[index] = new JournalRange(cuts[index], cuts[index + 1]);
        }
        return ranges;
    }

    public PartitionReaderFactory createReaderFactory() {
        ObjectNode question = Host.message("read", stream);
        question.put("rows", options.get("rows"));
        ArrayNode columns = question.putArray("columns");
        String[] names = schema.fieldNames();
        for (int index = 0; index < names.length; index++) {
            if (!names[index].equals(JournalReader.MARK)) {
                columns.add(names[index]);
            }
        }
        return new JournalReaderFactory(host, schema, question.toString());
    }

    public void commit(Offset end) {
    }

    public void stop() {
    }

    private long maxRows() {
        return options.getLong("max_rows", 1);
    }

    /** An interrupted wait leaves as a ClosedByInterruptException, which Spark knows as a stop. */
    private long[] numbers(ObjectNode question) {
        try {
            return host.numbers(question.toString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

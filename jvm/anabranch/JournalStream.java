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
    private volatile News news;  // what the last question brought

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
        ObjectNode question = rowsOf(Host.message("latest", stream));
        question.put("stage", options.get("stage"));
        question.put("scan", options.getInt("scan", 0));
        question.put("after", ((JournalOffset) start).seq);
        question.put("max_rows", maxRows());
        question.put("at_most", options.getInt("partitions", 1));
        news = asked(question, true);
        return new JournalOffset(stream, news.end());
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        long after = ((JournalOffset) start).seq;
        long to = ((JournalOffset) end).seq;
        News known = news;
        if (known != null && known.tellsOf(after, to)) {
            return known.ranges();
        }
        ObjectNode question = Host.message("ranges", stream);  // a batch that was begun before this query
        question.put("after", after);
        question.put("to", to);
        question.put("at_most", options.getInt("partitions", 1));
        return asked(question, false).ranges();
    }

    public PartitionReaderFactory createReaderFactory() {
        return new JournalReaderFactory(host, schema, rowsOf(Host.message("read", stream)).toString());
    }

    public void commit(Offset end) {
    }

    public void stop() {
    }

    /** Adds to a question which rows and columns are read. */
    private ObjectNode rowsOf(ObjectNode question) {
        question.put("rows", options.get("rows"));
        ArrayNode columns = question.putArray("columns");
        String[] names = schema.fieldNames();
        for (int index = 0; index < names.length; index++) {
            if (!names[index].equals(JournalReader.MARK)) {
                columns.add(names[index]);
            }
        }
        return question;
    }

    private long maxRows() {
        return options.getLong("max_rows", 1);
    }

    /** An interrupted wait leaves as a ClosedByInterruptException, which Spark knows as a stop. */
    private News asked(ObjectNode question, boolean withRows) {
        try {
            return host.news(question.toString(), withRows);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

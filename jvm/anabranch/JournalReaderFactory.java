package anabranch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Goes to the executors, and opens a reader for each range there. */
final class JournalReaderFactory implements PartitionReaderFactory {
    private final Host host;
    private final StructType schema;
    private final String question;

    JournalReaderFactory(Host host, StructType schema, String question) {
        this.host = host;
        this.schema = schema;
        this.question = question;
    }

    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("A journal is read in columns.");
    }

    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
        JournalRange range = (JournalRange) partition;
        if (range.sent != null) {
            return new JournalReader(range.sent.frames(), schema);
        }
        try {
            ObjectNode asked = (ObjectNode) Host.JSON.readTree(question);
            asked.put("after", range.after);
            asked.put("to", range.to);
            return new JournalReader(host.ask(asked.toString()), schema);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

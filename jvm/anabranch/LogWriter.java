package anabranch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/**
 * Turns the rows of one task into Arrow messages, as large as a segment of a log at most.
 *
 * <p>A task without rows makes no message and takes no memory: most tasks of a quiet stream are such. Rows are objects
 * here, because the compiler knows no other way to implement a method whose argument is generic.
 */
final class LogWriter implements DataWriter {
    private static final int MESSAGE_ROWS = 65_536;
    private static final int MESSAGE_BYTES = 16 << 20;
    private static final int LOOK_ROWS = 1_024;  // how often the bytes are looked at: a look visits every column

    private final StructType schema;
    private final List<byte[]> messages = new ArrayList<byte[]>();
    private BufferAllocator allocator;
    private VectorSchemaRoot root;
    private ArrowWriter writer;
    private int rows;

    LogWriter(StructType schema) {
        this.schema = schema;
    }

    /** The schema of all messages, as a message itself. */
    static byte[] schemaMessage(StructType schema) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), arrow(schema));
        return bytes.toByteArray();
    }

    public void write(Object row) throws IOException {
        if (writer == null) {
            allocator = Memory.ROOT.newChildAllocator("rows for a log", 0, Long.MAX_VALUE);
            root = VectorSchemaRoot.create(arrow(schema), allocator);
            writer = ArrowWriter.create(root);
        }
        writer.write((InternalRow) row);
        rows++;
        if (rows >= MESSAGE_ROWS || (rows % LOOK_ROWS == 0 && writer.sizeInBytes() >= MESSAGE_BYTES)) {
            finishMessage();
        }
    }

    public WriterCommitMessage commit() throws IOException {
        if (rows > 0) {
            finishMessage();
        }
        return new LogPart((byte[][]) messages.toArray(new byte[0][]));
    }

    public void abort() {
        messages.clear();
    }

    public void close() {
        if (root != null) {
            root.close();
            allocator.close();
            root = null;
        }
    }

    private void finishMessage() throws IOException {
        writer.finish();
        ArrowRecordBatch batch = new VectorUnloader(root).getRecordBatch();
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) batch.computeBodyLength() + 1024);
            MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), batch);
            messages.add(bytes.toByteArray());
        } finally {
            batch.close();
        }
        writer.reset();
        rows = 0;
    }

    static Schema arrow(StructType schema) {
        return ArrowUtils.toArrowSchema(schema, "UTC", true, false, false);
    }
}

package anabranch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;

/** Rows on their way into one value: an Arrow stream of one batch, which Python reads as it is. */
final class Pack {
    private static final int LARGEST_ROWS = 65_536;
    private static final int LARGEST_BYTES = 16 << 20;
    private static final int LOOK_ROWS = 1_024;
    static final int PARTS = 4_096;  // as many as a shard can be divided into: WINDOW_PARTS in limits.py

    private final BufferAllocator allocator;
    private final VectorSchemaRoot root;
    private final ArrowWriter writer;
    private byte[] touched = new byte[PARTS / 8];
    private int rows;

    Pack(StructType schema) {
        allocator = Memory.ROOT.newChildAllocator("rows in a pack", 0, Long.MAX_VALUE);
        root = VectorSchemaRoot.create(LogWriter.arrow(schema), allocator);
        writer = ArrowWriter.create(root);
    }

    boolean isEmpty() {
        return rows == 0;
    }

    /** Takes a row whose group has this hash. Whether the pack is as large as it should be then. */
    boolean add(InternalRow row, long hash) {
        int part = (int) (hash & (PARTS - 1));
        touched[part >> 3] |= 1 << (part & 7);
        writer.write(row);
        rows++;
        return rows >= LARGEST_ROWS || (rows % LOOK_ROWS == 0 && writer.sizeInBytes() >= LARGEST_BYTES);
    }

    /** A bit for each part of a shard: whether a row is of it. */
    byte[] touched() {
        return touched;
    }

    /** The rows so far, as one value; there are none then. */
    byte[] take() throws IOException {
        writer.finish();
        ArrowRecordBatch batch = new VectorUnloader(root).getRecordBatch();
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) batch.computeBodyLength() + 4096);
            WriteChannel channel = new WriteChannel(Channels.newChannel(bytes));
            MessageSerializer.serialize(channel, root.getSchema());
            MessageSerializer.serialize(channel, batch);
            return bytes.toByteArray();
        } finally {
            batch.close();
            writer.reset();
            rows = 0;
            touched = new byte[PARTS / 8];
        }
    }

    void close() {
        root.close();
        allocator.close();
    }
}

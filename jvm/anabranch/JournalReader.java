package anabranch;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The batches of one range: one for each message of the node, and at the end one with the control row, if there is one.
 *
 * <p>A message holds rows as they are stored, perhaps with columns that nobody asked for; those are left where they are.
 * The mark is not stored and not sent: it is null, but for the control row, which has nothing else. A stage that waits
 * for nothing does not ask for the mark, and gets no control row. Spark is done with a batch when it asks for the next.
 */
final class JournalReader implements PartitionReader<ColumnarBatch> {
    static final String MARK = "_wm";
    private static final int PREFIX_BYTES = 8;  // of an Arrow message: a mark, and the length of its metadata

    private final StructType schema;
    private final Frames frames;
    private final BufferAllocator allocator;
    private VectorSchemaRoot root;
    private VectorLoader loader;
    private ColumnVector[] columns;
    private ColumnarBatch batch;
    private boolean ended;

    JournalReader(Frames frames, StructType schema) {
        this.frames = frames;
        this.schema = schema;
        allocator = Memory.ROOT.newChildAllocator("a range of a journal", 0, Long.MAX_VALUE);
    }

    public boolean next() throws IOException {
        while (!ended) {
            switch (frames.next()) {
                case Frames.SCHEMA:
                    open(frames.body());
                    break;
                case Frames.ROWS:
                    load(frames.bodyLength());
                    batch = new ColumnarBatch(columns, root.getRowCount());
                    return true;
                case Frames.CONTROL:
                    long time = frames.body().getLong();
                    if (schema.getFieldIndex(MARK).isDefined()) {
                        batch = new ColumnarBatch(controlRow(time), 1);
                        return true;
                    }
                    break;
                case Frames.END:
                    ended = true;
                    break;
                default:
                    throw frames.unexpected();
            }
        }
        return false;
    }

    public ColumnarBatch get() {
        return batch;
    }

    public void close() throws IOException {
        try {
            if (root != null) {
                root.close();
            }
            allocator.close();
        } finally {
            if (ended) {
                frames.giveBack();
            } else {
                frames.close();
            }
        }
    }

    private void open(ByteBuffer message) throws IOException {
        message.position(PREFIX_BYTES);
        Schema stored = MessageSerializer.deserializeSchema(Message.getRootAsMessage(message));
        root = VectorSchemaRoot.create(stored, allocator);
        loader = new VectorLoader(root);
        String[] names = schema.fieldNames();
        columns = new ColumnVector[names.length];
        for (int index = 0; index < names.length; index++) {
            columns[index] = names[index].equals(MARK) ? (ColumnVector) nothing(index)
                    : new ArrowColumnVector(root.getVector(names[index]));
        }
    }

    /** Reads one message into one buffer; the columns point into it. */
    private void load(int length) throws IOException {
        ArrowBuf message = allocator.buffer(length);
        boolean whole = false;
        try {
            frames.body(message.nioBuffer(0, length));
            ArrowRecordBatch loaded = recordBatch(message, length);
            loader.load(loaded);
            loaded.close();
            whole = true;
        } finally {
            if (!whole) {
                root.clear();
            }
            int left = whole ? 1 : message.refCnt();  // also what a batch that is half made still holds
            message.getReferenceManager().release(left);
        }
    }

    private ArrowRecordBatch recordBatch(ArrowBuf message, int length) throws IOException {
        int metadata = length < PREFIX_BYTES ? -1 : message.getInt(4);
        if (metadata < 0 || metadata > length - PREFIX_BYTES) {
            throw frames.unexpected();
        }
        Message header = Message.getRootAsMessage(message.nioBuffer(PREFIX_BYTES, metadata));
        ArrowBuf body = message.slice(PREFIX_BYTES + metadata, length - PREFIX_BYTES - metadata);
        body.getReferenceManager().retain();  // for the batch, which releases it
        return MessageSerializer.deserializeRecordBatch(header, body);
    }

    private ColumnVector[] controlRow(long time) {
        String[] names = schema.fieldNames();
        ColumnVector[] row = new ColumnVector[names.length];
        for (int index = 0; index < names.length; index++) {
            ConstantColumnVector column = nothing(index);
            if (names[index].equals(MARK)) {
                column.setNotNull();
                column.setLong(time);
            }
            row[index] = column;
        }
        return row;
    }

    private ConstantColumnVector nothing(int index) {
        ConstantColumnVector column = new ConstantColumnVector(1, schema.apply(index).dataType());
        column.setNull();
        return column;
    }
}

package anabranch;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.Iterator;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/** The rows of packed values, one value after the other. The memory of one is given back when its rows are read. */
final class UnpackedRows implements Iterator, TaskCompletionListener {
    private final Iterator packed;
    private final StructType schema;
    private final UnsafeProjection projection;
    private BufferAllocator allocator;
    private ArrowStreamReader reader;
    private Iterator rows = Collections.emptyIterator();

    UnpackedRows(Iterator packed, StructType schema) {
        this.packed = packed;
        this.schema = schema;
        projection = UnsafeProjection.create(schema);
        if (TaskContext.get() != null) {
            TaskContext.get().addTaskCompletionListener(this);
        }
    }

    public boolean hasNext() {
        while (!rows.hasNext()) {
            try {
                close();
                if (!packed.hasNext()) {
                    return false;
                }
                rows = opened(((InternalRow) packed.next()).getBinary(0));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return true;
    }

    public Object next() {
        return projection.apply((InternalRow) rows.next());
    }

    public void onTaskCompletion(TaskContext context) {
        try {
            close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Iterator opened(byte[] value) throws IOException {
        allocator = Memory.ROOT.newChildAllocator("rows of a pack", 0, Long.MAX_VALUE);
        reader = new ArrowStreamReader(new ByteArrayInputStream(value), allocator);
        reader.loadNextBatch();
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        String[] names = schema.fieldNames();
        ColumnVector[] columns = new ColumnVector[names.length];
        for (int index = 0; index < names.length; index++) {
            columns[index] = new ArrowColumnVector(root.getVector(names[index]));
        }
        return new ColumnarBatch(columns, root.getRowCount()).rowIterator();
    }

    private void close() throws IOException {
        if (reader != null) {
            reader.close();
            allocator.close();
            reader = null;
        }
        rows = Collections.emptyIterator();
    }
}

package anabranch;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows of one task in packs, each with its shard and the parts of it that are touched.
 *
 * <p>The first two columns of a row are hashes of its group: one chooses the shard, the other the part.
 */
final class PackedRows implements Iterator, TaskCompletionListener {
    private static final int SHARD_HASH = 0;
    private static final int PART_HASH = 1;
    private static final int COLUMNS = 3;

    private final Iterator rows;
    private final StructType schema;
    private final int[] shards;
    private final Pack[] packs;
    private final ArrayDeque done = new ArrayDeque();
    private final UnsafeRowWriter writer = new UnsafeRowWriter(COLUMNS);

    PackedRows(Iterator rows, StructType schema, int[] shards) {
        this.rows = rows;
        this.schema = schema;
        this.shards = shards;
        packs = new Pack[shards.length];
        if (TaskContext.get() != null) {
            TaskContext.get().addTaskCompletionListener(this);
        }
    }

    public boolean hasNext() {
        while (done.isEmpty() && rows.hasNext()) {
            take((InternalRow) rows.next());
        }
        if (done.isEmpty()) {
            for (int partition = 0; partition < packs.length; partition++) {
                finish(partition);
            }
        }
        return !done.isEmpty();
    }

    public Object next() {
        return done.remove();
    }

    public void onTaskCompletion(TaskContext context) {
        for (int partition = 0; partition < packs.length; partition++) {
            if (packs[partition] != null) {
                packs[partition].close();
            }
        }
    }

    private void take(InternalRow row) {
        int partition = (int) Math.floorMod(row.getLong(SHARD_HASH), (long) packs.length);
        if (packs[partition] == null) {
            packs[partition] = new Pack(schema);
        }
        if (packs[partition].add(row, row.getLong(PART_HASH))) {
            finish(partition);
        }
    }

    private void finish(int partition) {
        Pack pack = packs[partition];
        if (pack == null || pack.isEmpty()) {
            return;
        }
        writer.reset();
        writer.zeroOutNullBytes();
        writer.write(0, shards[partition]);
        writer.write(1, pack.touched());
        try {
            writer.write(2, pack.take());
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        done.add(writer.getRow().copy());
    }
}

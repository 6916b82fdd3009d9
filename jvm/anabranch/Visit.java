package anabranch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.state.StateStore;

/**
 * One shard in one batch: what goes to Python of its new rows and its state, and what comes back.
 *
 * <p>The state of a shard is a summary and some parts, of which only those are read that new rows belong to, or that have
 * something to do at this watermark. The summary, which Python writes (``shards.py``), is whole numbers: a time, how many parts
 * it wants, and of each part its bytes and the smallest watermark at which it has something to do. If it wants
 * another number of parts than there are, it gets all of them.
 */
final class Visit implements Iterator {
    private static final int SUMMARY = -1;
    private static final long MICROS = 1_000L;

    // What is sent, and what comes back, as ``shards.py`` has it.
    private static final int SENT_SUMMARY = 0;
    private static final int SENT_ROWS = 1;
    private static final int SENT_PART = 2;
    private static final int MADE = 0;

    private final StateStore store;
    private final OrderExec operator;
    private final List packs = new ArrayList();
    private final byte[] touched = new byte[Pack.PARTS / 8];
    private final byte[] summary;
    private final long[] numbers;
    private final int parts;
    private Iterator returned;
    private Object made;
    private boolean committed;

    Visit(StateStore store, OrderExec operator) {
        this.store = store;
        this.operator = operator;
        summary = value(SUMMARY);
        numbers = new long[summary == null ? 0 : summary.length / 8];
        if (summary != null) {
            ByteBuffer.wrap(summary).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(numbers);
        }
        parts = numbers.length == 0 ? 0 : (numbers.length - 2) / 2;
    }

    void take(scala.collection.Iterator packed) {
        while (packed.hasNext()) {
            InternalRow row = (InternalRow) packed.next();
            byte[] more = row.getBinary(1);
            for (int index = 0; index < touched.length; index++) {
                touched[index] |= more[index];
            }
            packs.add(row.getBinary(2));
        }
    }

    boolean hasWork(long watermarkMs) {
        boolean found = !packs.isEmpty();
        for (int part = 0; part < parts; part++) {
            found |= isDue(part, watermarkMs);
        }
        return found;
    }

    Iterator sent(long watermarkMs) {
        List rows = new ArrayList();
        rows.add(row(SENT_SUMMARY, 0, watermarkMs, summary));
        for (int index = 0; index < packs.size(); index++) {
            rows.add(row(SENT_ROWS, 0, watermarkMs, (byte[]) packs.get(index)));
        }
        boolean all = parts > 0 && numbers[1] != parts;
        for (int part = 0; part < parts; part++) {
            if (numbers[2 + part] > 0 && (all || isTouched(part) || isDue(part, watermarkMs))) {
                rows.add(row(SENT_PART, part, watermarkMs, value(part)));
            }
        }
        return rows.iterator();
    }

    void keep(Iterator returned) {
        this.returned = returned;
    }

    public boolean hasNext() {
        while (made == null && returned.hasNext()) {
            InternalRow row = (InternalRow) returned.next();
            if (row.getInt(0) == MADE) {
                made = valueRow(row.getBinary(2));
            } else if (row.isNullAt(2)) {
                store.remove(keyRow(row.getInt(1)), StateStore.DEFAULT_COL_FAMILY_NAME());
            } else {
                store.put(keyRow(row.getInt(1)), valueRow(row.getBinary(2)), StateStore.DEFAULT_COL_FAMILY_NAME());
            }
        }
        if (made == null && !committed) {
            committed = true;
            store.commit();
            operator.setStoreMetrics(store, true);
            operator.setOperatorMetrics(1);
        }
        return made != null;
    }

    public Object next() {
        Object next = made;
        made = null;
        return next;
    }

    private boolean isDue(int part, long watermarkMs) {
        return numbers[2 + parts + part] <= watermarkMs * MICROS;
    }

    /** Whether a new row belongs to it: those of part p of n have p as the rest of their hash by n. */
    private boolean isTouched(int part) {
        boolean found = false;
        for (int bit = part; bit < Pack.PARTS; bit += parts) {
            found |= (touched[bit >> 3] & (1 << (bit & 7))) != 0;
        }
        return found;
    }

    private byte[] value(int part) {
        UnsafeRow found = store.get(keyRow(part), StateStore.DEFAULT_COL_FAMILY_NAME());
        return found == null ? null : found.getBinary(0);
    }

    private static UnsafeRow keyRow(int part) {
        UnsafeRowWriter writer = new UnsafeRowWriter(1);
        writer.resetRowWriter();
        writer.write(0, part);
        return writer.getRow();
    }

    private static UnsafeRow valueRow(byte[] value) {
        UnsafeRowWriter writer = new UnsafeRowWriter(1, value.length + 16);
        writer.resetRowWriter();
        writer.write(0, value);
        return writer.getRow();
    }

    private static UnsafeRow row(int kind, int part, long watermarkMs, byte[] value) {
        UnsafeRowWriter writer = new UnsafeRowWriter(4, (value == null ? 0 : value.length) + 16);
        writer.resetRowWriter();
        writer.write(0, kind);
        writer.write(1, part);
        writer.write(2, watermarkMs);
        if (value == null) {
            writer.setNullAt(3);
        } else {
            writer.write(3, value);
        }
        return writer.getRow();
    }
}

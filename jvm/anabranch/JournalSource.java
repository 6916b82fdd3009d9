package anabranch;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The door for Spark: {@code spark.readStream.format("anabranch.JournalSource")}.
 *
 * <p>Spark asks for the latest offset and for the rows between two offsets. An offset is the number of a segment, so a
 * batch that runs again reads exactly the same rows. Every range ends with one control row (the
 * smallest punctuation at its end), which the compiler turns into Spark's watermark.
 *
 * <p>Nothing is decided here. Where a batch ends, how it is divided and what is in a range, the node says; these classes
 * carry its answers to Spark. They use only what Janino can compile, so there are no lambdas and no diamonds, and a cast
 * where a compiler with full generics needs none.
 */
public class JournalSource implements TableProvider {
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return (StructType) DataType.fromJson(options.get("schema"));
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new JournalTable(schema, new CaseInsensitiveStringMap(properties));
    }

    /** Bytes of Arrow memory that readers in this process hold: none between batches. For tests. */
    public static long allocatedBytes() {
        return Memory.ROOT.getAllocatedMemory();
    }
}

package anabranch;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The way out of Spark: {@code frame.writeStream.format("anabranch.LogSink")}.
 *
 * <p>Spark computes a batch, each task turns its rows into Arrow messages, and the driver hands all of them to the node
 * in one question. Spark commits the batch when the node has answered: then it is in the log. Nothing is decided here;
 * the node knows a batch that comes again.
 *
 * <p>It is a sink for streams, and for the rare stage that has to work on the rows of a batch once more, a sink for
 * those.
 */
public class LogSink implements TableProvider, Table, SupportsWrite {
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return this;
    }

    public String name() {
        return "the log of a stage";
    }

    public Column[] columns() {
        return new Column[0];
    }

    public Set<TableCapability> capabilities() {
        Set<TableCapability> all = new java.util.HashSet<TableCapability>();
        all.add(TableCapability.STREAMING_WRITE);
        all.add(TableCapability.BATCH_WRITE);
        all.add(TableCapability.ACCEPT_ANY_SCHEMA);
        return Collections.unmodifiableSet(all);
    }

    /** Once for each batch, when it is planned. */
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new LogWrite(info);
    }
}

package anabranch;

import java.util.Collections;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A journal as a table of Spark, and the one scan that there is of it. Which columns are read was decided before. */
final class JournalTable implements Table, SupportsRead, ScanBuilder, Scan {
    private final StructType schema;
    private final CaseInsensitiveStringMap options;

    JournalTable(StructType schema, CaseInsensitiveStringMap options) {
        this.schema = schema;
        this.options = options;
    }

    public String name() {
        return "journal " + options.get("stream");
    }

    public Column[] columns() {
        StructField[] fields = schema.fields();
        Column[] columns = new Column[fields.length];
        for (int index = 0; index < fields.length; index++) {
            columns[index] = Column.create(fields[index].name(), fields[index].dataType(), fields[index].nullable());
        }
        return columns;
    }

    public Set<TableCapability> capabilities() {
        return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
        return this;
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return schema;
    }

    public String description() {
        return name();
    }

    public Scan.ColumnarSupportMode columnarSupportMode() {
        return Scan.ColumnarSupportMode.SUPPORTED;
    }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        return new JournalStream(schema, options);
    }
}

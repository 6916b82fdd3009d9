package anabranch;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Goes to the executors, and makes a writer for each task there. */
final class LogWriterFactory implements StreamingDataWriterFactory, DataWriterFactory {
    private final StructType schema;

    LogWriterFactory(StructType schema) {
        this.schema = schema;
    }

    public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
        return new LogWriter(schema);
    }

    public DataWriter<InternalRow> createWriter(int partition, long task) {
        return new LogWriter(schema);
    }
}

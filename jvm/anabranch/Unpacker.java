package anabranch;

import java.io.Serializable;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** What {@link UnpackExec} sends to its tasks. */
final class Unpacker extends AbstractFunction1 implements Serializable {
    private final StructType schema;

    Unpacker(StructType schema) {
        this.schema = schema;
    }

    public Object apply(Object packed) {
        return CollectionConverters.asScala(new UnpackedRows(CollectionConverters.asJava((Iterator) packed), schema));
    }
}

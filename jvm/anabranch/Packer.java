package anabranch;

import java.io.Serializable;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** What {@link PackExec} sends to its tasks. */
final class Packer extends AbstractFunction1 implements Serializable {
    private final StructType schema;
    private final int[] shards;

    Packer(StructType schema, int[] shards) {
        this.schema = schema;
        this.shards = shards;
    }

    public Object apply(Object rows) {
        return CollectionConverters.asScala(
                new PackedRows(CollectionConverters.asJava((Iterator) rows), schema, shards));
    }
}

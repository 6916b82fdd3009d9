package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A box that works in order, and what stands before and after it: steps of Spark's plans that are not among its own.
 *
 * <p>{@code pack} makes one value of many rows, {@code order} is the box, {@code unpack} takes what it makes apart, and {@code asStream} says that
 * what was made of them is a stream again. {@code gather} puts the few rows of several journals into one task. {@link PackingStrategy} plans them.
 */
public final class Packing {
    private static final StructType PACKED =
            StructType.fromDDL("_shard INT, _touched BINARY, _rows BINARY");

    private static final StructType MADE = StructType.fromDDL("_rows BINARY");

    private Packing() {
    }

    /** Lets the session plan these steps, besides what others let it plan. */
    public static void install(SparkSession session) {
        List known = new ArrayList(CollectionConverters.asJava(session.experimental().extraStrategies()));
        for (int index = 0; index < known.size(); index++) {
            if (known.get(index) instanceof PackingStrategy) {
                return;
            }
        }
        known.add(new PackingStrategy());
        session.experimental().extraStrategies_$eq(CollectionConverters.asScala(known).toSeq());
    }

    public static Dataset pack(Dataset rows) {
        return made(rows, new PackStep(attributes(PACKED), rows.logicalPlan()));
    }

    /** What a box makes of packed rows; {@code mapped} says by its last step which function of Python is the box. */
    public static Dataset order(Dataset mapped) {
        MapInArrow step = (MapInArrow) mapped.logicalPlan();
        LogicalPlan packed = (LogicalPlan) step.children().head();
        return made(mapped, new OrderStep(step.functionExpr(), attributes(MADE), packed));
    }

    /**
     * The rows of packed values. All rows with equal values in the columns {@code together} are in one partition; without
     * any such column, all rows are.
     */
    public static Dataset unpack(Dataset packed, String schema, String[] together) {
        StructType columns = (StructType) DataType.fromJson(schema);
        return made(packed, new UnpackStep(attributes(columns), packed.logicalPlan(), together));
    }

    public static Dataset asStream(Dataset rows) {
        return made(rows, new StreamStep(attributes(rows.schema()), rows.logicalPlan()));
    }

    /** The same rows, in one task if they are few. */
    public static Dataset gather(Dataset rows) {
        return made(rows, new GatherStep(attributes(rows.schema()), rows.logicalPlan()));
    }

    private static Seq attributes(StructType schema) {
        return DataTypeUtils.toAttributes(schema);
    }

    private static Dataset made(Dataset from, LogicalPlan plan) {
        return Dataset.ofRows(from.sparkSession(), plan);
    }
}

package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** Runs {@link UnpackStep}. Since it tells which rows are together, Spark need not bring them together once more. */
public final class UnpackExec extends MapInArrowExec {
    private final SparkPlan packed;
    private final String[] together;

    /** As Spark makes copies: with everything that it knows of a node. */
    public UnpackExec(
            Expression function, Seq output, SparkPlan packed, boolean isBarrier, Option profile, String[] together) {
        this(output, packed, together);
    }

    UnpackExec(Seq output, SparkPlan packed, String[] together) {
        super(Literal.TrueLiteral(), output, packed, false, Option.empty());
        this.packed = packed;
        this.together = together;
    }

    public RDD doExecute() {
        return packed.execute().mapPartitions(new Unpacker(schema()), false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public Partitioning outputPartitioning() {
        if (together == null) {
            return new UnknownPartitioning(conf().numShufflePartitions());
        }
        List columns = new ArrayList();
        for (Object column : CollectionConverters.asJava(output())) {
            for (int index = 0; index < together.length; index++) {
                if (((Attribute) column).name().equals(together[index])) {
                    columns.add(column);
                }
            }
        }
        Seq known = CollectionConverters.asScala(columns).toSeq();
        return new HashPartitioning(known, conf().numShufflePartitions());
    }

    public Seq otherCopyArgs() {
        return CollectionConverters.asScala(java.util.Collections.singletonList(together)).toSeq();
    }

    public MapInArrowExec withNewChildInternal(SparkPlan newChild) {
        return new UnpackExec(output(), newChild, together);
    }
}

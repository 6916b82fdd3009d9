package anabranch;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs {@link GatherStep}: of a Union of journals that have a few new rows each, Spark would make a task for each of
 * them, and a task costs more than these rows do. The rows keep their order.
 */
public final class GatherExec extends MapInArrowExec {
    private final SparkPlan rows;

    /** As Spark makes copies: with everything that it knows of a node. */
    public GatherExec(Expression function, Seq output, SparkPlan rows, boolean isBarrier, Option profile) {
        this(output, rows);
    }

    GatherExec(Seq output, SparkPlan rows) {
        super(Literal.TrueLiteral(), output, rows, false, Option.empty());
        this.rows = rows;
    }

    public RDD doExecute() {
        RDD made = rows.execute();
        return made.getNumPartitions() > 1 && areFew() ? made.coalesce(1, false, Option.empty(), null) : made;
    }

    public MapInArrowExec withNewChildInternal(SparkPlan newChild) {
        return new GatherExec(output(), newChild);
    }

    /** Whether all rows came with the answers that told of them. */
    private boolean areFew() {
        List leaves = CollectionConverters.asJava(rows.collectLeaves());
        for (int index = 0; index < leaves.size(); index++) {
            Object leaf = leaves.get(index);
            boolean few = leaf instanceof MicroBatchScanExec ? wereSent((MicroBatchScanExec) leaf)
                    : leaf instanceof LocalTableScanExec;  // a journal without news
            if (!few) {
                return false;
            }
        }
        return true;
    }

    private static boolean wereSent(MicroBatchScanExec scan) {
        List ranges = CollectionConverters.asJava(scan.inputPartitions());
        for (int index = 0; index < ranges.size(); index++) {
            if (!(ranges.get(index) instanceof JournalRange) || ((JournalRange) ranges.get(index)).sent == null) {
                return false;
            }
        }
        return true;
    }
}

package anabranch;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import scala.Option;
import scala.collection.immutable.Seq;

/** Runs {@link StreamStep}: nothing is done. */
public final class StreamExec extends MapInArrowExec {
    private final SparkPlan rows;

    /** As Spark makes copies: with everything that it knows of a node. */
    public StreamExec(Expression function, Seq output, SparkPlan rows, boolean isBarrier, Option profile) {
        this(output, rows);
    }

    StreamExec(Seq output, SparkPlan rows) {
        super(Literal.TrueLiteral(), output, rows, false, Option.empty());
        this.rows = rows;
    }

    public RDD doExecute() {
        return rows.execute();
    }

    public MapInArrowExec withNewChildInternal(SparkPlan newChild) {
        return new StreamExec(output(), newChild);
    }
}

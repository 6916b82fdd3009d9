package anabranch;

import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import scala.Option;
import scala.collection.immutable.Seq;

/** The rows as they are, as a stream again: Spark writes no other. */
public class StreamStep extends MapInArrow {
    /** As Spark makes copies: with everything that it knows of a node. */
    public StreamStep(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        this(output, child);
    }

    StreamStep(Seq output, LogicalPlan child) {
        super(Literal.TrueLiteral(), output, child, false, Option.empty());
    }

    public boolean isStreaming() {
        return true;
    }

    public AttributeSet references() {
        return child().outputSet();
    }

    public MapInArrow withNewChildInternal(LogicalPlan newChild) {
        return new StreamStep(output(), newChild);
    }

    public MapInArrow copy(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        return new StreamStep(output, child);
    }
}

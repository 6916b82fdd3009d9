package anabranch;

import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import scala.Option;
import scala.collection.immutable.Seq;

/** The rows as they are, in one task if they are few. */
public class GatherStep extends MapInArrow {
    /** As Spark makes copies: with everything that it knows of a node. */
    public GatherStep(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        this(output, child);
    }

    GatherStep(Seq output, LogicalPlan child) {
        super(Literal.TrueLiteral(), output, child, false, Option.empty());
    }

    public AttributeSet references() {
        return child().outputSet();
    }

    public MapInArrow withNewChildInternal(LogicalPlan newChild) {
        return new GatherStep(output(), newChild);
    }

    public MapInArrow copy(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        return new GatherStep(output, child);
    }
}

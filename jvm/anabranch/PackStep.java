package anabranch;

import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import scala.Option;
import scala.collection.immutable.Seq;

/** Many rows as one value. To Spark's optimizer it is what it is named after: rows go in, and quite others come out. */
public class PackStep extends MapInArrow {
    /** As Spark makes copies: with everything that it knows of a node. */
    public PackStep(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        this(output, child);
    }

    PackStep(Seq output, LogicalPlan child) {
        super(Literal.TrueLiteral(), output, child, false, Option.empty());
    }

    public AttributeSet references() {
        return child().outputSet();  // nothing of what goes in may be pruned
    }

    public MapInArrow withNewChildInternal(LogicalPlan newChild) {
        return new PackStep(output(), newChild);
    }

    public MapInArrow copy(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        return new PackStep(output, child);
    }
}

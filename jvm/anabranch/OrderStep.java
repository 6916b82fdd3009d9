package anabranch;

import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import scala.Option;
import scala.collection.immutable.Seq;

/** A box that works in order on packed rows: its function is Python's. What comes out is packed, too. */
public class OrderStep extends MapInArrow {
    /** As Spark makes copies: with everything that it knows of a node. */
    public OrderStep(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        this(function, output, child);
    }

    OrderStep(Expression function, Seq output, LogicalPlan child) {
        super(function, output, child, false, Option.empty());
    }

    public AttributeSet references() {
        return child().outputSet();
    }

    public MapInArrow withNewChildInternal(LogicalPlan newChild) {
        return new OrderStep(functionExpr(), output(), newChild);
    }

    public MapInArrow copy(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        return new OrderStep(function, output, child);
    }
}

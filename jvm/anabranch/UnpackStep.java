package anabranch;

import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of packed values, which are not a stream: what stands above sees the rows of one batch, and nothing else.
 *
 * <p>So an aggregate there is an ordinary one, without state and watermark. That is right because all rows of a window come
 * out in one batch. {@link StreamStep} ends it.
 */
public class UnpackStep extends MapInArrow {
    final String[] together;

    /** As Spark makes copies: with everything that it knows of a node. */
    public UnpackStep(
            Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile, String[] together) {
        this(output, child, together);
    }

    UnpackStep(Seq output, LogicalPlan child, String[] together) {
        super(Literal.TrueLiteral(), output, child, false, Option.empty());
        this.together = together;
    }

    public boolean isStreaming() {
        return false;
    }

    public AttributeSet references() {
        return child().outputSet();
    }

    public Seq otherCopyArgs() {
        return CollectionConverters.asScala(java.util.Collections.singletonList(together)).toSeq();
    }

    public MapInArrow withNewChildInternal(LogicalPlan newChild) {
        return new UnpackStep(output(), newChild, together);
    }

    public MapInArrow copy(Expression function, Seq output, LogicalPlan child, boolean isBarrier, Option profile) {
        return new UnpackStep(output, child, together);
    }
}

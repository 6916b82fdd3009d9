package anabranch;

import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** How Spark runs the steps of {@link Packing}. */
final class PackingStrategy extends SparkStrategy {
    public Seq apply(LogicalPlan plan) {
        return CollectionConverters.asScala(planned(plan)).toSeq();
    }

    private List planned(LogicalPlan plan) {
        if (plan instanceof PackStep) {
            PackStep step = (PackStep) plan;
            return Collections.singletonList(new PackExec(step.output(), later(step)));
        }
        if (plan instanceof OrderStep) {
            OrderStep step = (OrderStep) plan;
            Attribute shard = (Attribute) ((LogicalPlan) step.children().head()).output().head();
            Attribute made = (Attribute) step.output().head();
            return Collections.singletonList(new OrderExec(step.functionExpr(), shard, made, later(step)));
        }
        if (plan instanceof UnpackStep) {
            UnpackStep step = (UnpackStep) plan;
            return Collections.singletonList(new UnpackExec(step.output(), later(step), step.together));
        }
        if (plan instanceof GatherStep) {
            GatherStep step = (GatherStep) plan;
            return Collections.singletonList(new GatherExec(step.output(), later(step)));
        }
        if (plan instanceof StreamStep) {
            StreamStep step = (StreamStep) plan;
            return Collections.singletonList(new StreamExec(step.output(), later(step)));
        }
        return Collections.emptyList();
    }

    private SparkPlan later(LogicalPlan step) {
        return (SparkPlan) planLater((LogicalPlan) step.children().head());
    }
}

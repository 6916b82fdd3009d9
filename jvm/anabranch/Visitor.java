package anabranch;

import java.io.Serializable;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;

/** What {@link OrderExec} sends to its tasks: visits the shard of one, if there is anything to do. */
final class Visitor extends AbstractFunction2 implements Serializable {
    private final OrderExec operator;
    private final MapInBatchEvaluatorFactory python;
    private final long watermark;

    Visitor(OrderExec operator, MapInBatchEvaluatorFactory python, long watermark) {
        this.operator = operator;
        this.python = python;
        this.watermark = watermark;
    }

    public Object apply(Object store, Object packed) {
        Visit visit = new Visit((StateStore) store, operator);
        visit.take((scala.collection.Iterator) packed);
        Iterator returned = Collections.emptyIterator();
        if (visit.hasWork(watermark)) {
            scala.collection.Iterator sent = CollectionConverters.asScala(visit.sent(watermark));
            returned = CollectionConverters.asJava((scala.collection.Iterator) python.createEvaluator().eval(
                    TaskContext.getPartitionId(), OrderExec.seq(Collections.singletonList(sent))));
        }
        visit.keep(returned);
        return CollectionConverters.asScala(visit);
    }
}

package anabranch;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * Spark's listeners that keep jobs, stages, tasks and plans for its UI. They do so also where there is none: of every
 * micro-batch they hear some twenty events, and what they keep of the last thousand fills memory.
 */
public final class StatusListeners {
    private StatusListeners() {
    }

    /** Nobody hears of what runs any more, unless there is a UI. */
    public static void removeWithoutUi(SparkSession session) {
        SparkContext context = session.sparkContext();
        if (context.ui().isEmpty()) {
            remove(context, context.statusStore().listener());
            remove(context, session.sharedState().statusStore().listener());
        }
    }

    private static void remove(SparkContext context, Option listener) {
        if (listener.isDefined()) {
            context.listenerBus().removeListener((SparkListenerInterface) listener.get());
        }
    }
}

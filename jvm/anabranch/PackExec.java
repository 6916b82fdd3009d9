package anabranch;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Runs {@link PackStep}: the rows of a task as one value for each shard.
 *
 * <p>There is one shard for each partition of the state: a task then visits one, and no more trips to the state are made
 * than it takes. Spark keeps the number of partitions for the life of a checkpoint, whatever the settings say later.
 */
public final class PackExec extends MapInArrowExec {
    private static final int SPARKS_SEED = 42;  // of the hash by which Spark chooses a partition

    private final SparkPlan rows;

    /** As Spark makes copies: with everything that it knows of a node. */
    public PackExec(Expression function, Seq output, SparkPlan rows, boolean isBarrier, Option profile) {
        this(output, rows);
    }

    PackExec(Seq output, SparkPlan rows) {
        super(Literal.TrueLiteral(), output, rows, false, Option.empty());
        this.rows = rows;
    }

    public RDD doExecute() {
        Packer packer = new Packer(rows.schema(), shards(conf().numShufflePartitions()));
        return rows.execute().mapPartitions(packer, false, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public MapInArrowExec withNewChildInternal(SparkPlan newChild) {
        return new PackExec(output(), newChild);
    }

    /** For each partition the smallest number that Spark puts there. */
    static int[] shards(int partitions) {
        int[] shards = new int[partitions];
        boolean[] found = new boolean[partitions];
        int left = partitions;
        for (int number = 0; left > 0; number++) {
            int partition = Math.floorMod(Murmur3_x86_32.hashInt(number, SPARKS_SEED), partitions);
            if (!found[partition]) {
                found[partition] = true;
                shards[partition] = number;
                left--;
            }
        }
        return shards;
    }
}

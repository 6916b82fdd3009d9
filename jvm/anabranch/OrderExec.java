package anabranch;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStoreRDD;
import org.apache.spark.sql.execution.streaming.state.package$StateStoreOps;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import scala.Function3;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Runs {@link OrderStep}: state is read and written here, and what is in it is Python's business.
 *
 * <p>To Spark it is one of its operators with state, because it gives a place in the checkpoint and a watermark only to those
 * that it knows; all that this one would do is done otherwise. Each task has one shard ({@link PackExec}), sends what
 * concerns it to a Python worker, and keeps what comes back ({@link Visit}): one trip for a batch, and none for a shard
 * with nothing to do.
 */
public final class OrderExec extends FlatMapGroupsWithStateExec {
    static final StructType KEY = StructType.fromDDL("part INT");
    static final StructType VALUE = StructType.fromDDL("value BINARY");
    static final StructType SENT = StructType.fromDDL("kind INT, part INT, watermark BIGINT, value BINARY");

    private static final int VALUES_AT_ONCE = 16;  // each is up to 16 MiB, and all of them are one buffer of Arrow
    private static final int MAP_IN_ARROW = 207;  // PythonEvalType.SQL_MAP_ARROW_ITER_UDF

    OrderExec(Expression function, Attribute shard, Attribute made, SparkPlan packed) {
        this(null, Literal.TrueLiteral(), function, Literal.TrueLiteral(), seq(Collections.singletonList(shard)),
                seq(Collections.singletonList(shard)), packed.output(), none(), made, Option.empty(), null, 2, OutputMode.Append(),
                GroupStateTimeout.EventTimeTimeout(), Option.empty(), Option.empty(), Option.empty(),
                new LocalTableScanExec(none(), none(), Option.empty(), false), false, false, packed);
    }

    /** As Spark makes copies: with everything that it knows of a node. */
    public OrderExec(
            Function3 nothing, Expression keys, Expression function, Expression first, Seq shard, Seq firstShard, Seq packed,
            Seq firstData, Attribute made, Option stateInfo, ExpressionEncoder encoder, int version, OutputMode mode,
            GroupStateTimeout timeout, Option batchTime, Option watermarkBefore, Option watermark, SparkPlan firstState,
            boolean hasFirst, boolean skipsFirst, SparkPlan child) {
        super(nothing, keys, function, first, shard, firstShard, packed, firstData, made, stateInfo, encoder, version, mode,
                timeout, batchTime, watermarkBefore, watermark, firstState, hasFirst, skipsFirst, child);
    }

    public FlatMapGroupsWithStateExec copy(
            Function3 nothing, Expression keys, Expression function, Expression first, Seq shard, Seq firstShard, Seq packed,
            Seq firstData, Attribute made, Option stateInfo, ExpressionEncoder encoder, int version, OutputMode mode,
            GroupStateTimeout timeout, Option batchTime, Option watermarkBefore, Option watermark, SparkPlan firstState,
            boolean hasFirst, boolean skipsFirst, SparkPlan child) {
        return new OrderExec(nothing, keys, function, first, shard, firstShard, packed, firstData, made, stateInfo, encoder,
                version, mode, timeout, batchTime, watermarkBefore, watermark, firstState, hasFirst, skipsFirst, child);
    }

    public FlatMapGroupsWithStateExec withNewChildrenInternal(SparkPlan packed, SparkPlan firstState) {
        return copy(func(), keyDeserializer(), valueDeserializer(), initialStateDeserializer(), groupingAttributes(),
                initialStateGroupAttrs(), packed.output(), initialStateDataAttrs(), outputObjAttr(), stateInfo(),
                stateEncoder(), stateFormatVersion(), outputMode(), timeoutConf(), batchTimestampMs(),
                eventTimeWatermarkForLateEvents(), eventTimeWatermarkForEviction(), firstState, hasInitialState(),
                skipEmittingInitialStateKeys(), packed);
    }

    public RDD doExecute() {
        PythonUDF function = (PythonUDF) valueDeserializer();
        StructType returned = (StructType) function.dataType();
        ChainedPythonFunctions called = new ChainedPythonFunctions(seq(Collections.singletonList(function.func())));
        SparkPlan packed = (SparkPlan) children().head();
        MapInBatchEvaluatorFactory python = new MapInBatchEvaluatorFactory(
                DataTypeUtils.toAttributes(returned),
                seq(Collections.singletonList(new Tuple2(called, Long.valueOf(function.resultId().id())))),
                SENT, returned, VALUES_AT_ONCE, MAP_IN_ARROW, conf().sessionLocalTimeZone(),
                conf().arrowUseLargeVarTypes(), ArrowPythonRunner.getPythonRunnerConfMap(conf()),
                new MapInArrowExec(function, output(), packed, false, Option.empty()).pythonMetrics(),
                Option.empty(), Option.empty());
        metrics();  // made on the driver
        if (getStateInfo().numPartitions() != conf().numShufflePartitions()) {  // rows would go to shards of another state
            throw new IllegalStateException("The state has " + getStateInfo().numPartitions() + " partitions, and rows go to "
                    + conf().numShufflePartitions() + " shards.");
        }
        long watermark = ((Long) eventTimeWatermarkForEviction().get()).longValue();
        ClassTag rows = ClassTag$.MODULE$.apply(InternalRow.class);
        return new package$StateStoreOps(packed.execute(), rows).mapPartitionsWithStateStore(
                getStateInfo(), KEY, VALUE, new NoPrefixKeyStateEncoderSpec(KEY), session().sessionState(),
                Option.apply(session().streams().stateStoreCoordinator()), false,
                scala.collection.immutable.Map$.MODULE$.empty(), false, new Visitor(this, python, watermark), rows);
    }

    public StructType org$apache$spark$sql$execution$streaming$operators$stateful$flatmapgroupswithstate$FlatMapGroupsWithStateExecBase$$stateKeySchema() {
        return KEY;
    }

    public StructType org$apache$spark$sql$execution$streaming$operators$stateful$flatmapgroupswithstate$FlatMapGroupsWithStateExecBase$$stateValueSchema() {
        return VALUE;
    }

    public String shortName() {
        return "anabranchOrder";
    }

    /** What is packed goes to its shard; of what is not there nothing is asked. */
    public Seq requiredChildDistribution() {
        return seq(Arrays.asList(new Object[] {super.requiredChildDistribution().head(), UnspecifiedDistribution$.MODULE$}));
    }

    public Seq requiredChildOrdering() {
        return seq(Arrays.asList(new Object[] {none(), none()}));
    }

    static Seq seq(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static Seq none() {
        return seq(Collections.emptyList());
    }
}

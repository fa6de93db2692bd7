package headrace.kernel;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a sharded operator is made of: the spec that Python wrote, the rows it reads and those it gives.
 *
 * <p>The plan of such an operator: each row becomes a {@link Message} to the shard of its key ({@link ShardInput}), a shard's
 * messages come together in one task, and a {@link ShardProcessor} there has the state of the whole shard in its hands. There
 * are as many shards as shuffle partitions, and their numbers are chosen so that Spark gives each task exactly one.
 */
public final class Operator implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final StructType SHARD = new StructType().add("shard", DataTypes.IntegerType, false);
  private static final StructType OUTPUT = new StructType().add(PackedRow.COLUMN, DataTypes.BinaryType);
  private static final int SPARK_SEED = 42;

  final String kind;
  final boolean live;
  /** Whether rows come from operators that hold them back until their time has passed. */
  final boolean chained;
  /** Whether a row that is given may be several when it is sent. */
  final boolean many;
  /** Whether it has a clock: rows, or those of one side, have an event time. */
  final boolean clocked;
  final Delay delay;
  final long idleMillis;
  final LateRows late;
  final boolean lateDropped;
  /** The columns of the user, which come first in the rows. */
  final StructType input;
  /** All columns of the rows: the user's and the inputs of the aggregates. */
  final StructType rows;
  final StructType key;
  final StructType output;
  final Aggregates aggregates;
  final boolean early;
  final boolean changes;
  /** Whether rows have no event time. */
  final boolean timeless;
  /** Whether what comes of it is written as a view. */
  final boolean view;
  final long lateness;
  final int[] shards;
  private final int inputs;
  private final String spec;
  private transient JsonNode parsed;

  private Operator(String text, Dataset<Row>[] in, boolean live, int partitions, Delay delay, long idleMillis, LateRows late) {
    this.spec = text;
    JsonNode spec = spec();
    this.kind = spec.get("kind").asText();
    this.live = live;
    this.inputs = in.length;
    this.rows = columns(in);
    this.delay = delay;
    this.idleMillis = idleMillis;
    this.late = late;
    this.lateDropped = spec.path("late").asText("keep").equals("drop");
    this.input = new StructType(Arrays.copyOf(rows.fields(), spec.get("columns").size()));
    StructType key = new StructType();
    for (JsonNode name : spec.get("by")) {
      StructField field = rows.apply(name.asText());
      key = key.add(field.name(), field.dataType(), true);
    }
    this.key = key;
    this.output = Uniqueness.marked(StructType.fromDDL(spec.get("output").asText()), spec.path("unique"));
    this.clocked = !spec.get("time").isNull();
    this.timeless = spec.path("timeless").asBoolean(spec.get("time").isNull());
    this.view = spec.path("view").asBoolean();
    this.chained = isHeldBack(in[0]) || (inputs > 1 && !hasTable() && isHeldBack(in[1]));
    this.many = Arrays.stream(in).anyMatch(Operator::isMany);
    this.aggregates = new Aggregates(spec.get("aggregates"), input.size());
    this.early = spec.path("emit").asText("final").equals("early");
    this.changes = spec.path("changes").asBoolean();
    this.lateness = spec.path("lateness_ms").asLong() * 1000;
    this.shards = shards(partitions);
  }

  JsonNode spec() {
    if (parsed == null) {
      try {
        parsed = new ObjectMapper().readTree(spec);
      } catch (JsonProcessingException e) {
        throw new IllegalArgumentException(e);
      }
    }
    return parsed;
  }

  /**
   * The rows of the operator that the spec describes. Its one or two inputs have the same columns: the user's, and then the
   * inputs of the aggregates.
   */
  public static Dataset<Row> rows(Dataset<Row>[] in, String spec, String query, boolean live, Delay delay, long idleMillis,
      LateRows late) {
    SparkSession session = in[0].sparkSession();
    int partitions = Integer.parseInt(session.conf().get("spark.sql.shuffle.partitions"));
    Operator operator = new Operator(spec, in, live, partitions, delay, idleMillis, late);
    BatchWatermark watermark = new BatchWatermark(query, session);
    Dataset<byte[]> messages = operator.messages(in[0], watermark, false);
    if (in.length > 1) messages = messages.union(operator.messages(in[1], watermark, operator.hasTable()));
    Dataset<Row> routed = messages.toDF("message")
        .select(Invocation.of(new Message.Shard(), "of", DataTypes.IntegerType, functions.col("message")).as("shard"),
            functions.col("message"));
    Dataset<Row> out = routed.groupBy(functions.col("shard")).as(Encoders.row(SHARD), Encoders.row(routed.schema()))
        .transformWithState(ShardProcessor.of(operator, watermark), TimeMode.EventTime(), OutputMode.Update(), Encoders.row(OUTPUT));
    return PackedRow.unpack(out, operator.output);
  }

  private Dataset<byte[]> messages(Dataset<Row> in, BatchWatermark watermark, boolean clockless) {
    JsonNode at = spec().get("time");
    Column none = functions.lit(Message.NO_TIME);
    Column time = at.isNull() ? none : functions.coalesce(functions.unix_micros(PackedRow.column(at.asText())), none);
    Column name = key.isEmpty() ? functions.struct(functions.lit(null).cast("int")) : struct(key);
    Message.Wrap wrap = new Message.Wrap(rows, key, live);
    return in.select(Invocation.effect(wrap, "wrap", DataTypes.BinaryType, struct(rows), name, time))
        .as(Encoders.BINARY())
        .mapPartitions(new ShardInput(this, watermark, clockless), Encoders.BINARY());
  }

  /** Those of the first input; where there are others, any may be null in one of them. */
  private static StructType columns(Dataset<Row>[] in) {
    StructType first = in[0].schema();
    if (in.length == 1) return first;
    StructType columns = new StructType();
    for (StructField field : first.fields()) columns = columns.add(field.name(), field.dataType(), true, field.metadata());
    return columns;
  }

  private static boolean isHeldBack(Dataset<Row> in) {
    return isHeldBack(((org.apache.spark.sql.classic.Dataset<Row>) in).logicalPlan());
  }

  private static boolean isHeldBack(LogicalPlan plan) {
    List<LogicalPlan> inputs = inputs(plan);
    if (plan instanceof TransformWithState one && (Object) one.statefulProcessor() instanceof ShardProcessor<?> before) {
      if (before.operator.holdsBack()) return true;
      if (before.operator.hasTable()) inputs = List.of(first(plan));
    }
    return inputs.stream().anyMatch(Operator::isHeldBack);
  }

  /** Whether there is a step between an operator and these rows that makes several of one. */
  static boolean isMany(Dataset<Row> rows) {
    return isMany(((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan());
  }

  private static boolean isMany(LogicalPlan plan) {
    if (plan instanceof TransformWithState) return false;
    return plan instanceof Generate || plan instanceof Expand || inputs(plan).stream().anyMatch(Operator::isMany);
  }

  /** The first of the two inputs of an operator. */
  private static LogicalPlan first(LogicalPlan operator) {
    LogicalPlan below = operator;
    while (!(below instanceof Union)) below = inputs(below).get(0);
    return inputs(below).get(0);
  }

  private static List<LogicalPlan> inputs(LogicalPlan of) {
    return CollectionConverters.asJava(of.children());
  }

  /** Whether the second of its inputs is a table beside a stream, whose rows have no time. */
  private boolean hasTable() {
    return inputs > 1 && clocked && timeless;
  }

  /** Whether rows come out when a time has passed; what is only looked up comes out at once. */
  private boolean holdsBack() {
    return clocked && (!kind.equals("lookup_join") || spec().get("wait_ms").asLong() > 0);
  }

  private static Column struct(StructType of) {
    return functions.struct(Arrays.stream(of.fieldNames()).map(PackedRow::column).toArray(Column[]::new));
  }

  /** Numbers of which Spark's hash partitioning gives one to each partition. */
  private static int[] shards(int partitions) {
    int[] shards = new int[partitions];
    boolean[] found = new boolean[partitions];
    for (int number = 0, left = partitions; left > 0; number++) {
      int partition = Math.floorMod(Murmur3_x86_32.hashInt(number, SPARK_SEED), partitions);
      if (found[partition]) continue;
      found[partition] = true;
      shards[partition] = number;
      left--;
    }
    return shards;
  }

  int shard(int hash) {
    return shards[(hash & Integer.MAX_VALUE) % shards.length];
  }
}

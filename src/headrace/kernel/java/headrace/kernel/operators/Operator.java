package headrace.kernel.operators;

import headrace.kernel.aggregates.Aggregates;
import headrace.kernel.encode.JsonEncoder;
import headrace.kernel.meters.HotKeys;
import headrace.kernel.meters.Meter;
import headrace.kernel.state.PackedRow;
import headrace.kernel.time.Delay;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * What a sharded operator is made of: its options, the rows it reads and those it gives.
 *
 * <p>The plan of such an operator (`OperatorPlan`): each row becomes a {@link Message} to the shard
 * of its key ({@link ShardInput}), a shard's messages come together in one task, and a {@link
 * ShardProcessor} there has the state of the whole shard in its hands. There are as many shards as
 * shuffle partitions, and their numbers are chosen so that Spark gives each task exactly one.
 */
public final class Operator implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int SPARK_SEED = 42;

  private final String kind;
  final OperatorOptions options;

  /** The column of the event time, or null where rows have none. */
  public final String time;

  final boolean live;

  /** Whether rows are told with their `Origin`. */
  public final boolean origins;

  /** Whether rows come from operators that hold them back until their time has passed. */
  final boolean chained;

  /** Whether a row that is given may be several when it is sent. */
  final boolean many;

  /** Whether it has a clock: rows, or those of one side, have an event time. */
  final boolean clocked;

  final Delay delay;
  final long idleMillis;
  final LateRows late;

  /** The columns of the user, which come first in the rows. */
  final StructType input;

  /** All columns of the rows: the user's and the inputs of the aggregates. */
  public final StructType rows;

  public final StructType key;
  public final StructType output;
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

  /**
   * As it is told; `rows` are all columns of its inputs, and `output` those that it gives.
   *
   * @param heldBack of each input whether its rows come from operators that hold them back until
   *     their time has passed
   * @param many whether a row that is given may be several when it is sent
   */
  public Operator(
      Spec spec,
      StructType rows,
      StructType output,
      boolean[] heldBack,
      boolean many,
      boolean live,
      boolean origins,
      int partitions,
      Delay delay,
      long idleMillis,
      LateRows late) {
    Layout layout = spec.layout();
    this.kind = spec.kind().name();
    this.options = spec.options();
    this.time = layout.time();
    this.live = live;
    this.origins = live || origins;
    this.inputs = heldBack.length;
    this.rows = rows;
    this.delay = delay;
    this.idleMillis = idleMillis;
    this.late = late;
    this.input = new StructType(Arrays.copyOf(rows.fields(), layout.columns().size()));
    StructType key = new StructType();
    for (String name : layout.by()) {
      StructField field = rows.apply(name);
      key = key.add(field.name(), field.dataType(), true);
    }
    this.key = key;
    this.output = output;
    this.clocked = time != null;
    this.timeless = !clocked || options.timeless();
    this.view = layout.view();
    this.chained = heldBack[0] || (inputs > 1 && !hasTable() && heldBack[1]);
    this.many = many;
    this.aggregates = new Aggregates(layout.aggregates(), input.size());
    this.early = options.early();
    this.changes = layout.changes();
    this.lateness = OperatorOptions.micros(options.latenessMs());
    this.shards = shards(partitions);
  }

  /** What works in a shard of it. */
  ShardProcessor<?> processor() {
    return Operators.of(kind).processor(this);
  }

  /** Whether the second of its inputs is a table beside a stream, whose rows have no time. */
  public boolean hasTable() {
    return inputs > 1 && clocked && timeless;
  }

  /** Whether rows come out when a time has passed; what is only looked up comes out at once. */
  public boolean holdsBack() {
    return clocked && options.holdsBack();
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

  /** Those of the rows that tell which keys are frequent; null where there is one group. */
  HotKeys.Sample sample() {
    if (key.isEmpty()) return null;
    JsonEncoder encoder = new JsonEncoder(key);
    return new HotKeys.Sample(
        Meter.keys(
            late.name(),
            TaskContext.getPartitionId(),
            one ->
                new String(
                    encoder.encode(PackedRow.read(one.bytes, key.size())),
                    StandardCharsets.UTF_8)));
  }
}

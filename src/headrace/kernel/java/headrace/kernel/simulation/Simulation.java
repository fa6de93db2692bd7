package headrace.kernel.simulation;

import headrace.kernel.spark.Watermark;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.StructType;

/**
 * The batches of a query, one after the other, without Spark's engine.
 *
 * <p>What runs is the plan that Spark would run: decoders, the user's projections, operators with
 * their shuffles, encoders. What the engine does is done in the simplest way: the plan is cut at
 * its shuffles ({@link Stage}), each task has a context of Spark's and objects of its own ({@link
 * Task}), one task works at a time, and state is in memory ({@link State}). So a run gives the same
 * each time.
 *
 * <p><b>Exact.</b> {@link #batch} reads what was pushed, with the watermark that the batches before
 * have reached. {@link #again} runs the last batch once more on the state of before, as after a
 * crash.
 *
 * <p><b>Live.</b> Between {@link #begin} and {@link #end} every record goes through the whole plan
 * when it is pushed.
 */
public final class Simulation {
  private final LogicalPlan plan;
  private final StructType columns;
  private final Run run;
  private final List<KafkaRecord> pushed = new ArrayList<>();
  private ByteSink written = new ByteSink(1 << 10);
  private List<KafkaRecord> read = List.of();
  private final Stage last;

  /** What the stages of a query have in common. */
  static final class Run {
    final UUID query = UUID.randomUUID();
    final boolean live;
    final int shards;
    final Map<String, Integer> partitions = new HashMap<>();
    final List<Stage.Operator> operators = new ArrayList<>();
    UUID id = UUID.randomUUID();
    long batch = -1;

    /** The watermark of the batch, in milliseconds, and that of the one before, in microseconds. */
    long watermark;

    long before;

    /**
     * Whether nothing more comes in this batch, so that a task that has nothing to read is at its
     * end.
     */
    boolean ended;

    /** What is given the rows that come too late, and dead letters. */
    final Consumer<ProducerRecord<byte[], byte[]>> aside;

    private Run(boolean live, int shards, Consumer<ProducerRecord<byte[], byte[]>> aside) {
      this.live = live;
      this.shards = shards;
      this.aside = aside;
    }
  }

  /**
   * The records of a query as it would write them; `topics` are those that it reads, each with its
   * partitions.
   */
  public Simulation(Dataset<Row> records, boolean live, String[] topics, int[] partitions) {
    org.apache.spark.sql.classic.Dataset<Row> of =
        (org.apache.spark.sql.classic.Dataset<Row>) records;
    this.plan = of.sparkSession().sessionState().optimizer().execute(of.logicalPlan());
    this.columns = records.schema();
    int shards =
        Integer.parseInt(records.sparkSession().conf().get("spark.sql.shuffle.partitions"));
    this.run = new Run(live, shards, this::aside);
    for (int i = 0; i < topics.length; i++) run.partitions.put(topics[i], partitions[i]);
    this.last = new Stage(plan, run, this::result);
  }

  /**
   * Hands records to the query; of each topic, partition, offset, time in milliseconds, key and
   * value.
   */
  public void push(byte[] records) {
    ByteBuffer in = ByteBuffer.wrap(records);
    while (in.hasRemaining()) {
      String topic = new String(Value.sized(in), StandardCharsets.UTF_8);
      KafkaRecord record =
          new KafkaRecord(
              topic, in.getInt(), in.getLong(), in.getLong(), optional(in), optional(in));
      if (!run.live) {
        pushed.add(record);
        continue;
      }
      last.offer(record);
      last.drain();
    }
  }

  private static byte[] optional(ByteBuffer in) {
    return in.get() == 0 ? null : Value.sized(in);
  }

  /**
   * Exact: runs a batch of what was pushed; whether the watermark has moved, so that another one
   * may have more to say.
   */
  public boolean batch() {
    run.batch++;
    read = List.copyOf(pushed);
    pushed.clear();
    run.operators.forEach(Stage.Operator::keep);
    within(true);
    whole();
    return isMoved();
  }

  /** Exact: the last batch once more, in another run; what it writes comes again. */
  public void again() {
    run.operators.forEach(Stage.Operator::putBack);
    run.id = UUID.randomUUID();
    whole();
  }

  private void whole() {
    BatchWatermark.given(
        run.watermark * 1000,
        run.before,
        () -> {
          last.open();
          for (KafkaRecord record : read) last.offer(record);
          last.drain();
          last.close();
        });
  }

  /** Live: begins a batch. */
  public void begin() {
    run.batch++;
    run.operators.forEach(Stage.Operator::keep);
    within(false);
    BatchWatermark.given(run.watermark * 1000, run.before, last::open);
  }

  /** Live: ends it; whether the watermark has moved, so that another batch may have more to say. */
  public boolean end() {
    run.ended = true;
    last.drain();
    last.close();
    return isMoved();
  }

  /** Begins a batch with the watermark that has been reached, as Spark does when it plans one. */
  private void within(boolean ended) {
    run.ended = ended;
    run.before = run.batch == 0 ? Long.MIN_VALUE : run.watermark * 1000;
    run.watermark = Watermark.reached(plan, run.watermark);
  }

  private boolean isMoved() {
    return Watermark.reached(plan, run.watermark) > run.watermark;
  }

  /**
   * What was written since the last call: results, whose topic is empty, and what was put aside. Of
   * each record topic, partition (-1 where the key decides), key, value and headers.
   */
  public byte[] written() {
    byte[] bytes = written.bytes();
    written = new ByteSink(1 << 10);
    return bytes;
  }

  private void aside(ProducerRecord<byte[], byte[]> record) {
    written.putSized(record.topic().getBytes(StandardCharsets.UTF_8)).putInt(-1);
    optional(record.key());
    optional(record.value());
    Header[] headers = record.headers().toArray();
    written.putInt(headers.length);
    for (Header header : headers) {
      written.putSized(header.key().getBytes(StandardCharsets.UTF_8));
      optional(header.value());
    }
  }

  private void result(InternalRow row) {
    int key = columns.fieldIndex("key"), value = columns.fieldIndex("value");
    written
        .putSized(new byte[0])
        .putInt(isThere("partition") ? row.getInt(columns.fieldIndex("partition")) : -1);
    optional(row.isNullAt(key) ? null : row.getBinary(key));
    optional(row.isNullAt(value) ? null : row.getBinary(value));
    ArrayData headers = isThere("headers") ? row.getArray(columns.fieldIndex("headers")) : null;
    int count = headers == null ? 0 : headers.numElements();
    written.putInt(count);
    for (int i = 0; i < count; i++) {
      InternalRow header = headers.getStruct(i, 2);
      written.putSized(header.getUTF8String(0).getBytes());
      optional(header.getBinary(1));
    }
  }

  private boolean isThere(String column) {
    return columns.getFieldIndex(column).isDefined();
  }

  private void optional(byte[] bytes) {
    written.put(bytes == null ? 0 : 1);
    if (bytes != null) written.putSized(bytes);
  }
}

package headrace.kernel.spark;

import headrace.kernel.operators.LateRows;
import headrace.kernel.operators.Message;
import headrace.kernel.operators.Operator;
import headrace.kernel.operators.ShardInput;
import headrace.kernel.operators.ShardProcessor;
import headrace.kernel.operators.Spec;
import headrace.kernel.state.PackedRow;
import headrace.kernel.time.BatchWatermark;
import headrace.kernel.time.Delay;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The streaming plan of a sharded {@link Operator}: rows become messages, messages meet in shards,
 * shards give rows.
 */
public final class OperatorPlan {
  private static final StructType SHARD =
      new StructType().add("shard", DataTypes.IntegerType, false);
  private static final StructType OUTPUT =
      new StructType().add(PackedRow.COLUMN, DataTypes.BinaryType);

  private OperatorPlan() {}

  /**
   * The rows of the operator that the spec describes. Its one or two inputs have the same columns:
   * the user's, and then the inputs of the aggregates. With `origins`, and always in live mode,
   * rows keep their `Origin`.
   */
  public static Dataset<Row> rows(
      Dataset<Row>[] in,
      String spec,
      String query,
      boolean live,
      boolean origins,
      Delay delay,
      long idleMillis,
      LateRows late) {
    SparkSession session = in[0].sparkSession();
    int partitions = Integer.parseInt(session.conf().get("spark.sql.shuffle.partitions"));
    Spec told = Spec.of(spec);
    StructType output =
        Uniqueness.marked(StructType.fromDDL(told.layout().output()), told.layout().unique());
    boolean[] heldBack = new boolean[in.length];
    for (int i = 0; i < in.length; i++) heldBack[i] = Upstream.isHeldBack(in[i]);
    boolean many = Arrays.stream(in).anyMatch(Upstream::isMany);
    Operator operator =
        new Operator(
            told,
            columns(in),
            output,
            heldBack,
            many,
            live,
            origins,
            partitions,
            delay,
            idleMillis,
            late);
    BatchWatermark watermark = new RecordedWatermark(query, session);
    Dataset<byte[]> messages = messages(operator, in[0], watermark, false);
    if (in.length > 1)
      messages = messages.union(messages(operator, in[1], watermark, operator.hasTable()));
    Dataset<Row> routed =
        messages
            .toDF("message")
            .select(
                Invocation.of(
                        new Message.Shard(), "of", DataTypes.IntegerType, functions.col("message"))
                    .as("shard"),
                functions.col("message"));
    Dataset<Row> out =
        routed
            .groupBy(functions.col("shard"))
            .as(Encoders.row(SHARD), Encoders.row(routed.schema()))
            .transformWithState(
                ShardProcessor.of(operator, watermark),
                TimeMode.EventTime(),
                OutputMode.Update(),
                Encoders.row(OUTPUT));
    return PackedColumns.unpack(out, operator.output);
  }

  private static Dataset<byte[]> messages(
      Operator operator, Dataset<Row> in, BatchWatermark watermark, boolean clockless) {
    Column none = functions.lit(Message.NO_TIME);
    Column time =
        operator.time == null
            ? none
            : functions.coalesce(functions.unix_micros(PackedColumns.column(operator.time)), none);
    Column name =
        operator.key.isEmpty()
            ? functions.struct(functions.lit(null).cast("int"))
            : struct(operator.key);
    Message.Wrap wrap = new Message.Wrap(operator.rows, operator.key, operator.origins);
    return in.select(
            Invocation.effect(
                wrap, "wrap", DataTypes.BinaryType, struct(operator.rows), name, time))
        .as(Encoders.BINARY())
        .mapPartitions(new ShardInput(operator, watermark, clockless), Encoders.BINARY());
  }

  /** Those of the first input; where there are others, any may be null in one of them. */
  private static StructType columns(Dataset<Row>[] in) {
    StructType first = in[0].schema();
    if (in.length == 1) return first;
    StructType columns = new StructType();
    for (StructField field : first.fields())
      columns = columns.add(field.name(), field.dataType(), true, field.metadata());
    return columns;
  }

  private static Column struct(StructType of) {
    return functions.struct(
        Arrays.stream(of.fieldNames()).map(PackedColumns::column).toArray(Column[]::new));
  }
}

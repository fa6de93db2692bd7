package headrace.kernel.spark;

import headrace.kernel.meters.Marker;
import headrace.kernel.operators.Dedupe;
import headrace.kernel.operators.LateRows;
import headrace.kernel.run.Origin;
import headrace.kernel.state.Fingerprint;
import headrace.kernel.state.PackedRow;
import headrace.kernel.time.Delay;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The streaming plan of `hr.dedupe`: rows go to the bucket of their key, and {@link Dedupe} is
 * there.
 */
public final class DedupePlan {
  private DedupePlan() {}

  /**
   * Rows of `in` without repeats: `by` are the key columns, `at` the event time. In live mode, and
   * with `origins`, rows are called by their key and time, since which of several repeats comes
   * first may be another when a batch is run again.
   */
  public static Dataset<Row> dedupe(
      Dataset<Row> in,
      String[] by,
      String at,
      long withinMillis,
      LateRows late,
      boolean live,
      boolean origins,
      Delay delay,
      long idleMillis) {
    StructType schema = in.schema();
    Column time = functions.unix_micros(PackedColumns.column(at));
    Column none = functions.lit(null);
    Column origin =
        live || origins
            ? Invocation.effect(new Origin.Text(), "next", DataTypes.StringType)
            : none.cast(DataTypes.StringType);
    Column clock =
        live
            ? clock(new Dedupe.Clock(delay, Upstream.isMany(in)), time)
            : none.cast(DataTypes.BinaryType);
    Column stamp =
        Invocation.effect(
            new Marker.Sender(late.query(), late.operator()),
            live ? "stamp" : "time",
            DataTypes.LongType);
    Dataset<Row> packed =
        in.select(
                fingerprint(schema, by, time).as("__hr_key"),
                time.as("time"),
                PackedColumns.pack(in),
                origin.as("origin"),
                stamp.as("stamp"),
                clock.as("clock"))
            .select(
                "__hr_key.bucket",
                "__hr_key.high",
                "__hr_key.low",
                "time",
                PackedRow.COLUMN,
                "origin",
                "stamp",
                "clock");
    Dataset<Row> kept =
        packed
            .groupBy(functions.col("bucket"))
            .as(Encoders.row(Dedupe.KEY), Encoders.row(packed.schema()))
            .transformWithState(
                new Dedupe(schema, withinMillis * 1000, late, live, origins, idleMillis),
                TimeMode.EventTime(),
                OutputMode.Update(),
                Encoders.row(Dedupe.OUTPUT));
    return PackedColumns.unpack(kept, schema);
  }

  /**
   * A struct of {@link Fingerprint#SCHEMA} for the columns `by` of rows with this schema; `at` is
   * the time in microseconds.
   */
  private static Column fingerprint(StructType schema, String[] by, Column at) {
    StructType key = new StructType();
    Column[] columns = new Column[by.length];
    for (int i = 0; i < by.length; i++) {
      key = key.add(schema.apply(by[i]).name(), schema.apply(by[i]).dataType(), true);
      columns[i] = PackedColumns.column(by[i]);
    }
    Column time = functions.coalesce(at, functions.lit(0L));
    return Invocation.effect(
        new Fingerprint(key), "of", Fingerprint.SCHEMA, functions.struct(columns), time);
  }

  private static Column clock(Dedupe.Clock clock, Column time) {
    return Invocation.effect(
        clock,
        "with",
        DataTypes.BinaryType,
        functions.coalesce(time, functions.lit(Origin.NO_TIME)));
  }
}

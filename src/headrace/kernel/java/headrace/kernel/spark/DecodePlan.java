package headrace.kernel.spark;

import headrace.kernel.decode.Changelog;
import headrace.kernel.decode.JsonDecoder;
import headrace.kernel.decode.RecordDecoder;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.time.SourceClock;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/** The plan that makes rows of the records of a topic: {@link RecordDecoder}. */
public final class DecodePlan {
  private DecodePlan() {}

  /**
   * Rows of `ddl` from a DataFrame of Spark's Kafka source, which must include headers.
   *
   * @param epochMicros how many microseconds a number stands for where a timestamp is declared; 0
   *     refuses numbers
   * @param times the column of the event time, of when a device sent the record and of when it was
   *     received, each or null: the event time is corrected by how far the device's clock was off;
   *     a record whose event time is more than futureMillis ahead of the record's own time is
   *     refused, because it would drag the watermark along (negative: no bound)
   * @param side null when there is nowhere to put what does not fit; then it is counted and left
   *     out
   * @param clock what is told the event times, or null
   */
  public static Dataset<Row> rows(
      Dataset<Row> records,
      String query,
      String topic,
      String deadTopic,
      String ddl,
      long epochMicros,
      String[] times,
      long futureMillis,
      SideOutput side,
      SourceClock clock) {
    StructType schema = StructType.fromDDL(ddl);
    int[] fields = new int[3];
    for (int i = 0; i < 3; i++) fields[i] = times[i] == null ? -1 : schema.fieldIndex(times[i]);
    if (clock != null) records.sparkSession().sparkContext().register(clock);
    return rows(
        records,
        schema,
        new RecordDecoder(
            query,
            topic,
            deadTopic,
            new JsonDecoder(schema, epochMicros),
            null,
            fields,
            futureMillis < 0 ? -1 : futureMillis * 1000,
            side,
            clock,
            0));
  }

  /**
   * The same of a table's topic: its columns, and after them a plus or minus, the record's offset
   * and, unless its name is null, the time of the change, {@link Changelog}.
   */
  public static Dataset<Row> changes(
      Dataset<Row> records,
      String query,
      String topic,
      String deadTopic,
      String ddl,
      String[] key,
      boolean envelope,
      long epochMicros,
      String sign,
      String offset,
      String time,
      SideOutput side) {
    StructType schema = StructType.fromDDL(ddl);
    Changelog changelog = new Changelog(schema, key, envelope, epochMicros, time != null);
    RecordDecoder decoder =
        new RecordDecoder(
            query,
            topic,
            deadTopic,
            new JsonDecoder(schema, epochMicros),
            changelog,
            new int[] {-1, -1, -1},
            -1,
            side,
            null,
            0);
    return rows(records, Changelog.changes(schema, sign, offset, time), decoder);
  }

  private static Dataset<Row> rows(Dataset<Row> records, StructType schema, RecordDecoder decoder) {
    Column row =
        Invocation.effect(
            decoder,
            "decode",
            schema,
            functions.col("value"),
            functions.col("key"),
            functions.col("partition"),
            functions.col("offset"),
            functions.col("timestamp"),
            functions.col("headers"));
    return records
        .select(row.as("__hr_row"))
        .where(functions.col("__hr_row").isNotNull())
        .select("__hr_row.*");
  }
}

package headrace.kernel;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows of a view as records: a row is put under its key, and where the column `change` takes it back (`-`) the record
 * has no value, which deletes the key. The column itself is not written. Of a row and the one that takes its place under the
 * same key only the new one is.
 *
 * <p>A row with a null in its key, or with another word in `change`, cannot be in a table: it is counted and goes where late
 * rows go, with the reason.
 *
 * <p>A live record has the header `headrace.batch`: the id that Spark has given the query, and the batch that wrote it. By it
 * the next start knows what was written after the state that it goes on from.
 */
public final class ViewEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String CHANGE = "change";
  private static final UTF8String PUT = UTF8String.fromString("+");
  private static final UTF8String TAKE_BACK = UTF8String.fromString("-");
  private static final UTF8String BATCH = UTF8String.fromString("headrace.batch");
  private static final StructType LIVE_RECORD = TransactionalSink.RECORD.add("headers", Origin.Headers.TYPE);

  private final String query;
  private final String lateTopic;
  private final SideOutput side;
  private final String[] keys;
  private final boolean text;
  private final JsonEncoder key;
  private final JsonEncoder value;
  private final int keySize;
  private final boolean live;
  private transient ArrayData headers;
  private transient Origin origin;
  /** The keys of the new rows that were written, by the {@link Origin#pair} of a group. */
  private transient HashMap<Long, byte[]> written;
  private transient long group;

  private ViewEncoder(
      String query, boolean live, String lateTopic, SideOutput side, StructType key, StructType value) {
    this.query = query;
    this.live = live;
    this.lateTopic = lateTopic;
    this.side = side;
    this.keys = key.fieldNames();
    this.keySize = key.size();
    this.text = key.size() == 1 && key.apply(0).dataType().equals(DataTypes.StringType);
    this.key = new JsonEncoder(key);
    this.value = new JsonEncoder(value);
  }

  /**
   * Columns `key` and `value`, both binary, and `headers` of a query that runs live. The value has these columns; `change`
   * says what becomes of the row unless it is one of them. With a null side, what is refused is counted and left out.
   */
  public static Dataset<Row> encode(
      Dataset<Row> rows, String[] key, String[] columns, String query, boolean live, String lateTopic, SideOutput side) {
    StructType schema = rows.schema();
    boolean changes = columns.length < schema.size();
    ViewEncoder encoder = new ViewEncoder(query, live, lateTopic, side, of(schema, key), of(schema, columns));
    Column change = changes ? PackedRow.column(CHANGE) : functions.lit("+");
    Column record = Invocation.effect(
        encoder, "record", live ? LIVE_RECORD : TransactionalSink.RECORD, struct(key), struct(columns), change);
    return rows.select(record.as("__hr_row")).where(functions.col("__hr_row").isNotNull()).select("__hr_row.*");
  }

  /** Called by Spark for each row. Null when it cannot be in the view. */
  public InternalRow record(InternalRow keyRow, InternalRow row, UTF8String change) {
    for (int i = 0; i < keySize; i++)
      if (keyRow.isNullAt(i)) return refused(row, "the key column `" + keys[i] + "` is null");
    boolean takenBack = TAKE_BACK.equals(change);
    if (!takenBack && !PUT.equals(change)) return refused(row, "the column `change` is " + change + ", neither + nor -");
    long pair = origin().pair();
    byte[] keyBytes = text ? keyRow.getUTF8String(0).getBytes() : key.encode(keyRow);
    if (pair != 0) {
      if (Origin.group(pair) != group) written.clear();
      group = Origin.group(pair);
      if (!takenBack) written.put(pair, keyBytes);
      else if (Arrays.equals(keyBytes, written.remove(pair))) return null; // what takes its place has been written
    }
    byte[] valueBytes = takenBack ? null : value.encode(row);
    return new GenericInternalRow(
        live ? new Object[] {keyBytes, valueBytes, headers()} : new Object[] {keyBytes, valueBytes});
  }

  private ArrayData headers() {
    if (headers == null) {
      TaskContext task = TaskContext.get();
      String batch = task.getLocalProperty("sql.streaming.queryId") + ":" + task.getLocalProperty("streaming.sql.batchId");
      InternalRow header = new GenericInternalRow(new Object[] {BATCH, batch.getBytes(StandardCharsets.UTF_8)});
      headers = new GenericArrayData(new Object[] {header});
    }
    return headers;
  }

  private Origin origin() {
    if (origin == null) {
      origin = Origin.current();
      written = new HashMap<>();
    }
    return origin;
  }

  private InternalRow refused(InternalRow row, String reason) {
    Meter.gauge(query, "view", TaskContext.getPartitionId()).add(Meter.LATE);
    if (side != null)
      side.send(lateTopic, null, value.encode(row),
          List.of(SideOutput.header("headrace.query", query), SideOutput.header("headrace.reason", reason)));
    return null;
  }

  private static StructType of(StructType schema, String[] names) {
    StructType some = new StructType();
    for (String name : names) some = some.add(schema.apply(name));
    return some;
  }

  private static Column struct(String[] names) {
    return functions.struct(Arrays.stream(names).map(PackedRow::column).toArray(Column[]::new));
  }
}

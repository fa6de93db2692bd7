package headrace.kernel.encode;

import headrace.kernel.meters.Meter;
import headrace.kernel.run.Origin;
import headrace.kernel.run.RunName;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.sinks.TransactionalWrite;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows of a view as records: a row is put under its key, and where the column `change` takes it
 * back (`-`) the record has no value, which deletes the key. The column itself is not written. Of a
 * row and the one that takes its place under the same key only the new one is: in live mode it
 * comes first, and the old one is left out here; in exact mode it comes right after the old one,
 * which {@link TransactionalWrite} leaves out.
 *
 * <p>A row with a null in its key, or with another word in `change`, cannot be in a table: it is
 * counted and goes where late rows go, with the reason.
 *
 * <p>A live record has the header `headrace.batch` ({@link Headers}).
 */
public final class ViewEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final UTF8String PUT = UTF8String.fromString("+");
  private static final UTF8String TAKE_BACK = UTF8String.fromString("-");

  /** What a row becomes in live mode; else it is {@link TransactionalWrite#RECORD}. */
  public static final StructType LIVE_RECORD =
      TransactionalWrite.RECORD.add("headers", Headers.TYPE);

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

  /** With a null side, what is refused is counted and left out. */
  public ViewEncoder(
      String query,
      boolean live,
      String lateTopic,
      SideOutput side,
      StructType key,
      StructType value) {
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

  /** Called by Spark for each row. Null when it cannot be in the view. */
  public InternalRow record(InternalRow keyRow, InternalRow row, UTF8String change) {
    for (int i = 0; i < keySize; i++)
      if (keyRow.isNullAt(i)) return refused(row, "the key column `" + keys[i] + "` is null");
    boolean takenBack = TAKE_BACK.equals(change);
    if (!takenBack && !PUT.equals(change))
      return refused(row, "the column `change` is " + change + ", neither + nor -");
    long pair = origin().pair();
    byte[] keyBytes = text ? keyRow.getUTF8String(0).getBytes() : key.encode(keyRow);
    if (pair != 0) {
      if (Origin.group(pair) != group) written.clear();
      group = Origin.group(pair);
      if (!takenBack) written.put(pair, keyBytes);
      else if (Arrays.equals(keyBytes, written.remove(pair)))
        return null; // what takes its place has been written
    }
    byte[] valueBytes = takenBack ? null : value.encode(row);
    return new GenericInternalRow(
        live
            ? new Object[] {keyBytes, valueBytes, headers()}
            : new Object[] {keyBytes, valueBytes});
  }

  private ArrayData headers() {
    if (headers == null) {
      headers = new GenericArrayData(new Object[] {Headers.batch()});
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
      side.send(
          lateTopic,
          null,
          value.encode(row),
          List.of(
              SideOutput.header("headrace.query", RunName.bare(query)),
              SideOutput.header("headrace.reason", reason)));
    return null;
  }
}

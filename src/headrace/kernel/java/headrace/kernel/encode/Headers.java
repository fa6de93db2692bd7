package headrace.kernel.encode;

import headrace.kernel.run.Batch;
import headrace.kernel.run.Origin;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers of a record that a live query writes, by which the next start knows what was written
 * beyond the state that it goes on from.
 *
 * <ul>
 *   <li>`headrace.batch`: the id that Spark has given the query, and the batch that wrote the
 *       record;
 *   <li>`headrace.id`: the query, the {@link Origin} of the row and a number, the same each time
 *       the row is made. Changes of a table have none: they are taken back, and told again with
 *       other values.
 * </ul>
 *
 * A row whose id is {@link Written} has no headers at all, and must not be written.
 */
public final class Headers implements Serializable {
  private static final long serialVersionUID = 1L;
  public static final DataType TYPE =
      DataTypes.createArrayType(
          new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType));
  private static final UTF8String ID = UTF8String.fromString("headrace.id");
  private static final UTF8String BATCH = UTF8String.fromString("headrace.batch");
  private static final ArrayData NONE = new GenericArrayData(new Object[0]);

  private final String query;
  private final Written written;
  private transient Origin origin;
  private transient InternalRow batch;

  /** Those of the rows of a query; without `written` they have no ids. */
  public Headers(String query, Written written) {
    this.query = query;
    this.written = written;
  }

  /** Called by Spark for each row. */
  public ArrayData next() {
    if (batch == null) {
      origin = Origin.current();
      batch = batch();
    }
    String id = written == null ? null : origin.id(query);
    if (id == null) return new GenericArrayData(new Object[] {batch});
    if (written.has(id)) return NONE;
    return new GenericArrayData(new Object[] {header(ID, id), batch});
  }

  /** The header that names the batch at hand. */
  static InternalRow batch() {
    TaskContext task = TaskContext.get();
    return header(BATCH, Batch.query(task) + ":" + Batch.number(task));
  }

  private static InternalRow header(UTF8String name, String value) {
    return new GenericInternalRow(new Object[] {name, value.getBytes(StandardCharsets.UTF_8)});
  }
}

package headrace.kernel.state;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/**
 * A whole row as the bytes of Spark's own row format.
 *
 * <p>A stateful processor is given external rows, and turning every column into a Java object and
 * back costs more than the operator itself. An operator that hands rows through takes the columns
 * it computes with and the row packed, and the packed row is unpacked behind it without a copy.
 */
public final class PackedRow implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The column that holds it. */
  public static final String COLUMN = "__hr_row";

  private final StructType schema;
  private transient UnsafeProjection projection;

  public PackedRow(StructType schema) {
    this.schema = schema;
  }

  /** Called by Spark. */
  public byte[] pack(InternalRow row) {
    if (projection == null) projection = UnsafeProjection.create(schema);
    return projection.apply(row).getBytes();
  }

  /** Called by Spark. */
  public InternalRow unpack(byte[] bytes) {
    UnsafeRow row = new UnsafeRow(schema.size());
    row.pointTo(bytes, bytes.length);
    return row;
  }

  /** The row in the bytes, outside of a plan. */
  public static InternalRow read(byte[] bytes, int fields) {
    UnsafeRow row = new UnsafeRow(fields);
    row.pointTo(bytes, bytes.length);
    return row;
  }
}

package headrace.kernel;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A whole row as the bytes of Spark's own row format.
 *
 * <p>A stateful processor is given external rows, and turning every column into a Java object and back costs more than
 * the operator itself. An operator that hands rows through takes the columns it computes with and the row packed, and
 * the packed row is unpacked behind it without a copy.
 */
public final class PackedRow implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The column that holds it. */
  static final String COLUMN = "__hr_row";

  private final StructType schema;
  private transient UnsafeProjection projection;

  private PackedRow(StructType schema) {
    this.schema = schema;
  }

  /** The row of all columns of `in`, packed. */
  static Column pack(Dataset<Row> in) {
    return pack(in.schema());
  }

  /** The rows of `in` with these columns packed into one; what other columns there are comes first. */
  public static Dataset<Row> packed(Dataset<Row> in, String[] columns) {
    List<String> inside = Arrays.asList(columns);
    List<Column> all = new ArrayList<>();
    for (String name : in.schema().fieldNames()) if (!inside.contains(name)) all.add(column(name));
    all.add(packing(in, columns));
    return in.select(all.toArray(Column[]::new));
  }

  /** These columns of `in`, packed. */
  public static Column packing(Dataset<Row> in, String[] columns) {
    StructType schema = new StructType();
    for (String name : columns) schema = schema.add(in.schema().apply(name));
    return pack(schema);
  }

  private static Column pack(StructType schema) {
    Column all = functions.struct(Arrays.stream(schema.fieldNames()).map(PackedRow::column).toArray(Column[]::new));
    return Invocation.of(new PackedRow(schema), "pack", DataTypes.BinaryType, all).as(COLUMN);
  }

  /** Replaces the packed column by the columns of `schema` that it holds, with their metadata; other columns are dropped. */
  static Dataset<Row> unpack(Dataset<Row> packed, StructType schema) {
    Column row = Invocation.of(new PackedRow(schema), "unpack", schema, functions.col(COLUMN));
    Column[] columns = Arrays.stream(schema.fields())
        .map(f -> functions.col(COLUMN).getField(f.name()).as(f.name(), f.metadata())).toArray(Column[]::new);
    return packed.select(row.as(COLUMN)).select(columns);
  }

  static Column column(String name) {
    return functions.col("`" + name.replace("`", "``") + "`");
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
  static InternalRow read(byte[] bytes, int fields) {
    UnsafeRow row = new UnsafeRow(fields);
    row.pointTo(bytes, bytes.length);
    return row;
  }
}

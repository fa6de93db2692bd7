package headrace.kernel.spark;

import headrace.kernel.state.PackedRow;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Columns of a plan packed into one, and back: {@link PackedRow}. */
public final class PackedColumns {
  private PackedColumns() {}

  /** The row of all columns of `in`, packed. */
  public static Column pack(Dataset<Row> in) {
    return pack(in.schema());
  }

  /**
   * The rows of `in` with these columns packed into one; what other columns there are comes first.
   */
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
    Column all =
        functions.struct(
            Arrays.stream(schema.fieldNames()).map(PackedColumns::column).toArray(Column[]::new));
    return Invocation.of(new PackedRow(schema), "pack", DataTypes.BinaryType, all)
        .as(PackedRow.COLUMN);
  }

  /**
   * Replaces the packed column by the columns of `schema` that it holds, with their metadata; other
   * columns are dropped.
   */
  public static Dataset<Row> unpack(Dataset<Row> packed, StructType schema) {
    Column row =
        Invocation.of(new PackedRow(schema), "unpack", schema, functions.col(PackedRow.COLUMN));
    Column[] columns =
        Arrays.stream(schema.fields())
            .map(f -> functions.col(PackedRow.COLUMN).getField(f.name()).as(f.name(), f.metadata()))
            .toArray(Column[]::new);
    return packed.select(row.as(PackedRow.COLUMN)).select(columns);
  }

  public static Column column(String name) {
    return functions.col("`" + name.replace("`", "``") + "`");
  }
}

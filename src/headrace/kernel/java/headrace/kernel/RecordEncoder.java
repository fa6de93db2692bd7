package headrace.kernel;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Rows as records for the log: the value is the whole row as JSON; the key is the text of a single string column, or the
 * JSON of several or other columns, or null when none is named. Then there is a `partition`, so that rows of one origin
 * stay in one and in order. With the name of a query there are `headers` too, by which repeats are told ({@link Origin}).
 */
public final class RecordEncoder {
  private RecordEncoder() {}

  /** Columns `key` and `value`, both binary; `partition` of so many where no key is named; with a query `headers`. */
  public static Dataset<Row> encode(Dataset<Row> rows, String[] key, int partitions, String query) {
    Column keyColumn = functions.lit(null).cast(DataTypes.BinaryType);
    if (key.length == 1 && rows.schema().apply(key[0]).dataType().equals(DataTypes.StringType))
      keyColumn = PackedRow.column(key[0]).cast(DataTypes.BinaryType);
    else if (key.length > 0) keyColumn = json(rows, key);
    List<Column> columns = new ArrayList<>();
    columns.add(keyColumn.as("key"));
    columns.add(json(rows, rows.schema().fieldNames()).as("value"));
    if (key.length == 0) columns.add(Origin.Partition.column(partitions).as("partition"));
    if (query != null) columns.add(Origin.Headers.column(query).as("headers"));
    return rows.select(columns.toArray(Column[]::new));
  }

  private static Column json(Dataset<Row> rows, String[] names) {
    StructType schema = new StructType();
    Column[] columns = new Column[names.length];
    for (int i = 0; i < names.length; i++) {
      StructField field = rows.schema().apply(names[i]);
      schema = schema.add(field);
      columns[i] = PackedRow.column(names[i]);
    }
    return Invocation.of(new JsonEncoder(schema), "encode", DataTypes.BinaryType, functions.struct(columns));
  }
}

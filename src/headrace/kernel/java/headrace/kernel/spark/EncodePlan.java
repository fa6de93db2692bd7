package headrace.kernel.spark;

import headrace.kernel.encode.Headers;
import headrace.kernel.encode.JsonEncoder;
import headrace.kernel.encode.ViewEncoder;
import headrace.kernel.encode.Written;
import headrace.kernel.run.Origin;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.sinks.TransactionalWrite;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Rows as records for the log: the value is the whole row as JSON; the key is the text of a single
 * string column, or the JSON of several or other columns, or null when none is named. Then there is
 * a `partition`, so that rows of one origin stay in one and in order. Those of a live query have
 * {@link Headers}. Rows that are {@link Written} are left out.
 */
public final class EncodePlan {
  private static final String HEADERS = "headers";
  private static final String CHANGE = "change";

  private EncodePlan() {}

  /**
   * Columns `key` and `value`, both binary; `partition` of so many where no key is named; `headers`
   * of a query that is live.
   *
   * @param written what is left out; null for changes of a table, which have no ids, and where
   *     nothing is
   */
  public static Dataset<Row> encode(
      Dataset<Row> rows,
      String[] key,
      int partitions,
      String query,
      boolean live,
      Written written) {
    Column keyColumn = functions.lit(null).cast(DataTypes.BinaryType);
    if (key.length == 1 && rows.schema().apply(key[0]).dataType().equals(DataTypes.StringType))
      keyColumn = PackedColumns.column(key[0]).cast(DataTypes.BinaryType);
    else if (key.length > 0) keyColumn = json(rows, key);
    List<Column> columns = new ArrayList<>();
    columns.add(keyColumn.as("key"));
    columns.add(json(rows, rows.schema().fieldNames()).as("value"));
    if (key.length == 0) {
      Origin.Partition partition = new Origin.Partition(partitions);
      columns.add(Invocation.effect(partition, "next", DataTypes.IntegerType).as("partition"));
    }
    if (live || written != null) {
      columns.add(Invocation.effect(new Headers(query, written), "next", Headers.TYPE).as(HEADERS));
    }
    Dataset<Row> records = rows.select(columns.toArray(Column[]::new));
    if (written != null) records = records.where(functions.size(functions.col(HEADERS)).gt(0));
    return live || written == null ? records : records.drop(HEADERS);
  }

  /**
   * The rows of a view, {@link ViewEncoder}: columns `key` and `value`, both binary, and `headers`
   * of a query that runs live. The value has these columns; `change` says what becomes of the row
   * unless it is one of them. With a null side, what is refused is counted and left out.
   */
  public static Dataset<Row> encodeView(
      Dataset<Row> rows,
      String[] key,
      String[] columns,
      String query,
      boolean live,
      String lateTopic,
      SideOutput side) {
    StructType schema = rows.schema();
    boolean changes = columns.length < schema.size();
    ViewEncoder encoder =
        new ViewEncoder(query, live, lateTopic, side, of(schema, key), of(schema, columns));
    Column change = changes ? PackedColumns.column(CHANGE) : functions.lit("+");
    Column record =
        Invocation.effect(
            encoder,
            "record",
            live ? ViewEncoder.LIVE_RECORD : TransactionalWrite.RECORD,
            struct(key),
            struct(columns),
            change);
    return rows.select(record.as("__hr_row"))
        .where(functions.col("__hr_row").isNotNull())
        .select("__hr_row.*");
  }

  /**
   * Whether Python computes something of the rows: it reads ahead, so that nobody behind it knows
   * the row at hand.
   */
  public static boolean isInPython(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows)
        .logicalPlan()
        .containsPattern(TreePattern.PYTHON_UDF());
  }

  private static Column json(Dataset<Row> rows, String[] names) {
    StructType schema = new StructType();
    Column[] columns = new Column[names.length];
    for (int i = 0; i < names.length; i++) {
      StructField field = rows.schema().apply(names[i]);
      schema = schema.add(field);
      columns[i] = PackedColumns.column(names[i]);
    }
    return Invocation.of(
        new JsonEncoder(schema), "encode", DataTypes.BinaryType, functions.struct(columns));
  }

  private static StructType of(StructType schema, String[] names) {
    StructType some = new StructType();
    for (String name : names) some = some.add(schema.apply(name));
    return some;
  }

  private static Column struct(String[] names) {
    return functions.struct(Arrays.stream(names).map(PackedColumns::column).toArray(Column[]::new));
  }
}

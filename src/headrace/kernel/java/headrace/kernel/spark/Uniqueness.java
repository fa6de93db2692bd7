package headrace.kernel.spark;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Which columns of an operator's result tell its rows apart, one row for each of their values at
 * any time.
 *
 * <p>All changes of such a row come from one task, in order, and a replacement as
 * `ShardProcessor.replace` says. The columns carry it as metadata, which a `select` hands on with
 * the column itself and with nothing that is made of it.
 */
public final class Uniqueness {
  private static final String NUMBER = "headrace.unique";
  private static final String COUNT = "headrace.unique_of";

  private Uniqueness() {}

  /** The columns with the mark; `unique` names them, or is null when nothing is known. */
  static StructType marked(StructType output, List<String> unique) {
    if (unique == null) return output;
    StructType all = new StructType();
    for (StructField field : output.fields()) {
      int number = unique.indexOf(field.name());
      Metadata mark =
          number < 0 && unique.size() > 0
              ? field.metadata()
              : new MetadataBuilder()
                  .withMetadata(field.metadata())
                  .putLong(NUMBER, number)
                  .putLong(COUNT, unique.size())
                  .build();
      all = all.add(field.name(), field.dataType(), field.nullable(), mark);
    }
    return all;
  }

  /**
   * Whether the key tells rows apart that come straight from an operator, through nothing but
   * `select` and `where`.
   */
  public static boolean holds(Dataset<Row> rows, String[] key) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    while (plan instanceof Project
        || plan instanceof Filter
        || plan instanceof SubqueryAlias
        || plan instanceof SerializeFromObject) plan = ((UnaryNode) plan).child();
    if (!(plan instanceof TransformWithState)) return false;
    Set<Long> found = new HashSet<>();
    for (String name : key) {
      Metadata mark = rows.schema().apply(name).metadata();
      if (!mark.contains(COUNT)) continue;
      if (mark.getLong(COUNT) == 0) return true;
      found.add(mark.getLong(NUMBER));
      if (found.size() == mark.getLong(COUNT)) return true;
    }
    return false;
  }
}

package headrace.kernel.spark;

import java.util.function.Predicate;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What becomes of the sign of a table's rows, its column `change`, between the operator that gives
 * them and who takes them: projections and filters, which treat each row for itself.
 */
public final class Sign {
  private static final String NAME = "change";

  private Sign() {}

  /**
   * Whether the rows are those of a table whose sign was left out, by somebody who has not looked
   * at it.
   */
  public static boolean isLost(Dataset<Row> rows) {
    return isLost(((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan());
  }

  private static boolean isLost(LogicalPlan plan) {
    if (isSigned(plan)) return false;
    if (plan instanceof Union)
      return CollectionConverters.asJava(plan.children()).stream().anyMatch(Sign::isLost);
    return comesOfTable(plan) && find(plan, one -> one.references().exists(Sign::is)) == null;
  }

  /**
   * What is computed of a table's rows and may be something else when a row goes than it was when
   * it came, as SQL; null when nothing is.
   */
  public static String moving(Dataset<Row> rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
    Expression found =
        find(plan, one -> !one.deterministic() || one.containsPattern(TreePattern.CURRENT_LIKE()));
    return found == null ? null : found.sql();
  }

  private static boolean comesOfTable(LogicalPlan plan) {
    for (LogicalPlan one = plan; one != null; one = below(one)) if (isSigned(one)) return true;
    return false;
  }

  /**
   * The first expression of this kind that the rows of a table go through; a column that is only
   * handed on is none.
   */
  private static Expression find(LogicalPlan plan, Predicate<Expression> wanted) {
    for (LogicalPlan one = plan; comesOfTable(below(one)); one = below(one)) {
      for (Expression of : CollectionConverters.asJava(one.expressions())) {
        if (!(of instanceof Attribute) && wanted.test(of)) return of;
      }
    }
    return null;
  }

  /** What a plan takes its rows from one by one; null where it does more than that. */
  private static LogicalPlan below(LogicalPlan plan) {
    return plan instanceof Project
            || plan instanceof Filter
            || plan instanceof SubqueryAlias
            || plan instanceof Generate
            || plan instanceof EventTimeWatermark
        ? ((UnaryNode) plan).child()
        : null;
  }

  private static boolean isSigned(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.output()).stream().anyMatch(Sign::is);
  }

  private static boolean is(Attribute column) {
    return column.name().equals(NAME) && column.dataType() instanceof StringType;
  }
}

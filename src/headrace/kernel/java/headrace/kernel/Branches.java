package headrace.kernel;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.runtime.AbstractPartialFunction;

/**
 * Tells the branches of a query apart that read the same topic, as the two sides of a union may: each gets a number, which
 * goes into what its tasks and its rows are called ({@link Origin}). Under one name the one task would take the batch of the
 * other for its own, written already, and two rows of one record for one that came twice.
 */
public final class Branches {
  private Branches() {}

  /** The rows of the whole plan of a query, with numbers where a topic is read more than once. */
  public static Dataset<Row> apart(Dataset<Row> rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
    LogicalPlan numbered = (LogicalPlan) plan.transformUp(new Numbering());
    if (numbered == plan) return rows;
    return org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) rows.sparkSession(), numbered);
  }

  /** What is of this name in a branch; in the first one it is the name. */
  static String named(String name, int branch) {
    return branch == 0 ? name : name + "~" + branch;
  }

  private static RecordDecoder decoder(Expression of) {
    return of instanceof Literal literal && literal.value() instanceof RecordDecoder decoder ? decoder : null;
  }

  /** Gives every decoder of a topic in the plan its own number. */
  private static final class Numbering extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final Map<String, Integer> next = new HashMap<>();

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof Project;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan) plan.transformExpressions(new AbstractPartialFunction<Expression, Expression>() {
        @Override
        public boolean isDefinedAt(Expression of) {
          return decoder(of) != null;
        }

        @Override
        public Expression apply(Expression of) {
          RecordDecoder decoder = decoder(of);
          int number = next.merge(decoder.topic(), 1, Integer::sum) - 1;
          return number == 0 ? of : Literal.fromObject(decoder.of(number), of.dataType());
        }
      });
    }
  }
}

package headrace.kernel.spark;

import headrace.kernel.operators.ShardProcessor;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import scala.jdk.javaapi.CollectionConverters;

/** What lies before an operator in a plan. */
final class Upstream {
  private Upstream() {}

  /** Whether rows come from an operator that holds them back until their time has passed. */
  static boolean isHeldBack(Dataset<Row> in) {
    return isHeldBack(((org.apache.spark.sql.classic.Dataset<Row>) in).logicalPlan());
  }

  private static boolean isHeldBack(LogicalPlan plan) {
    List<LogicalPlan> inputs = inputs(plan);
    if (plan instanceof TransformWithState one
        && (Object) one.statefulProcessor() instanceof ShardProcessor<?> before) {
      if (before.operator().holdsBack()) return true;
      if (before.operator().hasTable()) inputs = List.of(first(plan));
    }
    return inputs.stream().anyMatch(Upstream::isHeldBack);
  }

  /** Whether there is a step between an operator and these rows that makes several of one. */
  static boolean isMany(Dataset<Row> rows) {
    return isMany(((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan());
  }

  private static boolean isMany(LogicalPlan plan) {
    if (plan instanceof TransformWithState) return false;
    return plan instanceof Generate
        || plan instanceof Expand
        || inputs(plan).stream().anyMatch(Upstream::isMany);
  }

  /** The first of the two inputs of an operator. */
  private static LogicalPlan first(LogicalPlan operator) {
    LogicalPlan below = operator;
    while (!(below instanceof Union)) below = inputs(below).get(0);
    return inputs(below).get(0);
  }

  private static List<LogicalPlan> inputs(LogicalPlan of) {
    return CollectionConverters.asJava(of.children());
  }
}

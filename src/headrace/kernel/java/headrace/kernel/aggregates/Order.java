package headrace.kernel.aggregates;

import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** The order of values of a type, as Spark has it. */
final class Order {
  private Order() {}

  @SuppressWarnings("unchecked")
  static Ordering<Object> of(DataType type) {
    return (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(type);
  }

  /** Whether a value comes before another; null comes first. */
  static boolean isBefore(Object a, Object b, Ordering<Object> order) {
    if (a == null || b == null) return a == null && b != null;
    return order.compare(a, b) < 0;
  }
}

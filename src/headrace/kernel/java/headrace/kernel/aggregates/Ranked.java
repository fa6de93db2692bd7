package headrace.kernel.aggregates;

import headrace.kernel.state.Value;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** What is kept of the rows whose `by` is least or greatest; the second cell holds that `by`. */
abstract class Ranked extends Aggregate {
  private final int input;
  private final int by;
  final DataType type;
  final DataType byType;
  private final boolean greatest;
  transient Ordering<Object> order;
  private transient Ordering<Object> byOrder;

  Ranked(int input, int by, DataType type, DataType byType, boolean greatest) {
    this.input = input;
    this.by = by;
    this.type = type;
    this.byType = byType;
    this.greatest = greatest;
  }

  @Override
  int cells() {
    return 2;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (row.isNullAt(by)) return;
    Object key = Value.of(row, by, byType);
    int compared = compared(to, key);
    if (compared <= 0) take(to, Value.of(row, input, type), key, compared);
  }

  /** Less than 0 when the key is ahead of what is known. */
  final int compared(Accumulator to, Object key) {
    if (order == null) {
      order = Order.of(type);
      byOrder = Order.of(byType);
    }
    Object known = to.cells[cell + 1];
    return known == null
        ? -1
        : greatest ? byOrder.compare(known, key) : byOrder.compare(key, known);
  }

  /** Takes in a value whose key is ahead, or the same one. */
  abstract void take(Accumulator to, Object value, Object key, int compared);
}

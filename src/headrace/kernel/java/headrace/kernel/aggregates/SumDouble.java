package headrace.kernel.aggregates;

import org.apache.spark.sql.catalyst.InternalRow;

/** The sum of doubles, or their mean. */
final class SumDouble extends Aggregate {
  private final int input;
  private final boolean mean;

  SumDouble(int input, boolean mean) {
    this.input = input;
    this.mean = mean;
  }

  @Override
  int lanes() {
    return 2;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) plus(to, row.getDouble(input), 1);
  }

  private void plus(Accumulator to, double value, long count) {
    to.lanes[lane] = Double.doubleToRawLongBits(Double.longBitsToDouble(to.lanes[lane]) + value);
    to.lanes[lane + 1] += count;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    plus(to, Double.longBitsToDouble(from.lanes[lane]), from.lanes[lane + 1]);
  }

  @Override
  Object result(Accumulator of) {
    if (of.lanes[lane + 1] == 0) return null;
    double sum = Double.longBitsToDouble(of.lanes[lane]);
    return mean ? sum / of.lanes[lane + 1] : sum;
  }
}

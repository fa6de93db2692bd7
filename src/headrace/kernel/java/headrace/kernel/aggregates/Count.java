package headrace.kernel.aggregates;

import org.apache.spark.sql.catalyst.InternalRow;

/** How many rows, or rows whose input is not null. */
final class Count extends Aggregate {
  private final int input;

  Count(int input) {
    this.input = input;
  }

  @Override
  int lanes() {
    return 1;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (input < 0 || !row.isNullAt(input)) to.lanes[lane]++;
  }

  @Override
  boolean takesOut() {
    return true;
  }

  @Override
  void remove(Accumulator from, InternalRow row) {
    if (input < 0 || !row.isNullAt(input)) from.lanes[lane]--;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    to.lanes[lane] += from.lanes[lane];
  }

  @Override
  Object result(Accumulator of) {
    return of.lanes[lane];
  }
}

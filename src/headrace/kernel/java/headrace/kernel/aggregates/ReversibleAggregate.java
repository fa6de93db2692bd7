package headrace.kernel.aggregates;

import org.apache.spark.sql.catalyst.InternalRow;

/** One that can. */
abstract class ReversibleAggregate extends Aggregate {
  final int input;

  ReversibleAggregate(int input) {
    this.input = input;
  }

  abstract void change(Accumulator to, InternalRow row, int times);

  @Override
  final void add(Accumulator to, InternalRow row, long at) {
    change(to, row, 1);
  }

  @Override
  final void remove(Accumulator from, InternalRow row) {
    change(from, row, -1);
  }

  @Override
  final boolean takesOut() {
    return true;
  }
}

package headrace.kernel.aggregates;

import headrace.kernel.state.Value;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** The least or greatest of values that fit a lane. */
final class ExtremeLong extends Aggregate {
  private final int input;
  private final DataType type;
  private final boolean greatest;

  ExtremeLong(int input, DataType type, boolean greatest) {
    this.input = input;
    this.type = type;
    this.greatest = greatest;
  }

  @Override
  int lanes() {
    return 2;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) take(to, Value.asLong(row, input, type));
  }

  private void take(Accumulator to, long value) {
    if (to.lanes[lane + 1] == 0 || (greatest ? value > to.lanes[lane] : value < to.lanes[lane]))
      to.lanes[lane] = value;
    to.lanes[lane + 1] = 1;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.lanes[lane + 1] != 0) take(to, from.lanes[lane]);
  }

  @Override
  Object result(Accumulator of) {
    return of.lanes[lane + 1] == 0 ? null : Value.fromLong(of.lanes[lane], type);
  }
}

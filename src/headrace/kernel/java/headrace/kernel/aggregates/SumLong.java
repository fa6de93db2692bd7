package headrace.kernel.aggregates;

import headrace.kernel.state.Value;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** The sum of whole numbers; one that does not fit any more is an error. */
final class SumLong extends Aggregate {
  private final int input;
  private final DataType type;
  private final String name;

  SumLong(int input, DataType type, String name) {
    this.input = input;
    this.type = type;
    this.name = name;
  }

  @Override
  int lanes() {
    return 2;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) plus(to, Value.asLong(row, input, type), 1);
  }

  @Override
  boolean takesOut() {
    return true;
  }

  @Override
  void remove(Accumulator from, InternalRow row) {
    if (!row.isNullAt(input)) {
      from.lanes[lane] -= Value.asLong(row, input, type);
      from.lanes[lane + 1]--;
    }
  }

  private void plus(Accumulator to, long value, long count) {
    long sum = to.lanes[lane] + value;
    if (((to.lanes[lane] ^ sum) & (value ^ sum)) < 0) throw overflow(name, "bigint");
    to.lanes[lane] = sum;
    to.lanes[lane + 1] += count;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    plus(to, from.lanes[lane], from.lanes[lane + 1]);
  }

  @Override
  Object result(Accumulator of) {
    return of.lanes[lane + 1] == 0 ? null : (Object) of.lanes[lane];
  }
}

package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** The first or last value by event time, of equals the least or greatest. */
final class FirstOrLast extends Aggregate {
  private final int input;
  private final DataType type;
  private final boolean last;
  private transient Ordering<Object> order;

  FirstOrLast(int input, DataType type, boolean last) {
    this.input = input;
    this.type = type;
    this.last = last;
  }

  @Override
  int lanes() {
    return 1;
  }

  @Override
  int cells() {
    return 1;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) take(to, Value.of(row, input, type), at);
  }

  private void take(Accumulator to, Object value, long at) {
    if (to.cells[cell] != null) {
      if (order == null) order = Order.of(type);
      int compared = Long.compare(at, to.lanes[lane]);
      if (compared == 0) compared = order.compare(value, to.cells[cell]);
      if (last ? compared <= 0 : compared >= 0) return;
    }
    to.cells[cell] = value;
    to.lanes[lane] = at;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) take(to, from.cells[cell], from.lanes[lane]);
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell];
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    Value.write(out, from.cells[cell], type);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    to.cells[cell] = Value.read(in, type);
  }
}

package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.DataType;

/**
 * The value whose `by` is least or greatest, of equals the least value; without `by` the least or
 * greatest itself.
 */
final class Extreme extends Ranked {
  Extreme(int input, int by, DataType type, DataType byType, boolean greatest) {
    super(input, by < 0 ? input : by, type, byType, greatest);
  }

  @Override
  void take(Accumulator to, Object value, Object key, int compared) {
    if (compared == 0 && !Order.isBefore(value, to.cells[cell], order)) return;
    to.cells[cell] = value;
    to.cells[cell + 1] = key;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    Object key = from.cells[cell + 1];
    int compared = key == null ? 1 : compared(to, key);
    if (compared <= 0) take(to, from.cells[cell], key, compared);
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell];
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    Value.write(out, from.cells[cell], type);
    Value.write(out, from.cells[cell + 1], byType);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    to.cells[cell] = Value.read(in, type);
    to.cells[cell + 1] = Value.read(in, byType);
  }
}

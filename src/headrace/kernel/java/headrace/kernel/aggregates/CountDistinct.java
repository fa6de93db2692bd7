package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.HashSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** How many different values, exactly. */
final class CountDistinct extends Aggregate {
  private final int input;
  private final DataType type;

  CountDistinct(int input, DataType type) {
    this.input = input;
    this.type = type;
  }

  @Override
  int cells() {
    return 1;
  }

  @SuppressWarnings("unchecked")
  private HashSet<Object> values(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = new HashSet<>(4);
    return (HashSet<Object>) of.cells[cell];
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (row.isNullAt(input)) return;
    Object value = Value.of(row, input, type);
    values(to)
        .add(
            value instanceof byte[] bytes
                ? ByteBuffer.wrap(bytes)
                : value instanceof Double d && d == 0.0 ? 0.0 : value);
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) values(to).addAll(values(from));
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell] == null ? 0L : (long) values(of).size();
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    out.putInt(from.cells[cell] == null ? 0 : values(from).size());
    if (from.cells[cell] == null) return;
    for (Object value : values(from))
      Value.write(out, value instanceof ByteBuffer bytes ? bytes.array() : value, type);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    for (int i = 0, n = in.getInt(); i < n; i++) {
      Object value = Value.read(in, type);
      values(to).add(value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : value);
    }
  }
}

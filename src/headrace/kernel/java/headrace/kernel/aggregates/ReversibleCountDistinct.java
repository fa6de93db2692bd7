package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** How many different values there are. */
final class ReversibleCountDistinct extends ReversibleValues {
  ReversibleCountDistinct(int number, int input, DataType type) {
    super(number, input, type);
  }

  @Override
  void change(Accumulator to, InternalRow row, int times) {
    if (!row.isNullAt(input)) bag(to).add(Value.of(row, input, type), times);
  }

  @Override
  public int compare(Object one, Object other) {
    return values(one, other);
  }

  @Override
  Object result(Accumulator of) {
    return (long) bag(of).different();
  }

  @Override
  public void write(Object item, ByteSink out) {
    Value.write(out, item, type);
  }

  @Override
  public Object read(ByteBuffer in) {
    return Value.read(in, type);
  }
}

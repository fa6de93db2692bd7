package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;

/** The values of all rows whose `by` is least or greatest, the least values first. */
final class Tied extends Ranked {
  private final int most;

  Tied(int input, int by, DataType type, DataType byType, boolean greatest, int most) {
    super(input, by, type, byType, greatest);
    this.most = most;
  }

  @SuppressWarnings("unchecked")
  private ArrayList<Object> values(Accumulator of) {
    return (ArrayList<Object>) of.cells[cell];
  }

  @Override
  void take(Accumulator to, Object value, Object key, int compared) {
    if (compared < 0) {
      to.cells[cell] = new ArrayList<>(2);
      to.cells[cell + 1] = key;
    }
    ArrayList<Object> values = values(to);
    int place = values.size();
    while (place > 0 && Order.isBefore(value, values.get(place - 1), order)) place--;
    if (place < most) values.add(place, value);
    if (values.size() > most) values.remove(most);
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    Object key = from.cells[cell + 1];
    int compared = key == null ? 1 : compared(to, key);
    if (compared > 0) return;
    for (Object value : values(from)) {
      take(to, value, key, compared);
      compared = 0;
    }
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell + 1] == null ? null : new GenericArrayData(values(of).toArray());
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    Value.write(out, from.cells[cell + 1], byType);
    if (from.cells[cell + 1] == null) return;
    out.putInt(values(from).size());
    for (Object value : values(from)) Value.write(out, value, type);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    to.cells[cell + 1] = Value.read(in, byType);
    if (to.cells[cell + 1] == null) return;
    int count = in.getInt();
    ArrayList<Object> values = new ArrayList<>(count);
    for (int i = 0; i < count; i++) values.add(Value.read(in, type));
    to.cells[cell] = values;
  }
}

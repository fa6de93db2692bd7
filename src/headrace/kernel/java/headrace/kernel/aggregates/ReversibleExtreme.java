package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/**
 * The value whose `by` is least or greatest, of equals the least value; without `by` the least or
 * greatest itself. With `ties` all values with that `by`, so many at most.
 */
final class ReversibleExtreme extends ReversibleValues {
  /** A value and what it is ranked by. */
  private record Entry(Object by, Object value) {}

  private final int by;
  private final DataType byType;
  private final boolean greatest;
  private final int ties;
  private transient Ordering<Object> byOrder;

  ReversibleExtreme(
      int number, int input, int by, DataType type, DataType byType, boolean greatest, int ties) {
    super(number, input, type);
    this.by = by;
    this.byType = byType;
    this.greatest = greatest;
    this.ties = ties;
  }

  @Override
  void change(Accumulator to, InternalRow row, int times) {
    if (row.isNullAt(by < 0 ? input : by)) return;
    Object value = Value.of(row, input, type);
    bag(to).add(by < 0 ? value : new Entry(Value.of(row, by, byType), value), times);
  }

  @Override
  public int compare(Object one, Object other) {
    if (by < 0) return greatest ? values(other, one) : values(one, other);
    Entry a = (Entry) one, b = (Entry) other;
    int compared = byOrder(a, b);
    return compared != 0 ? compared : values(a.value, b.value);
  }

  private int byOrder(Entry a, Entry b) {
    if (byOrder == null) byOrder = Order.of(byType);
    return greatest ? byOrder.compare(b.by, a.by) : byOrder.compare(a.by, b.by);
  }

  @Override
  Object result(Accumulator of) {
    Object first = bag(of).first();
    if (first == null || by < 0) return first;
    if (ties == 0) return ((Entry) first).value;
    ArrayList<Object> found = new ArrayList<>();
    bag(of)
        .each(
            (item, times) -> {
              if (byOrder((Entry) item, (Entry) first) != 0) return false;
              for (int i = 0; i < times && found.size() < ties; i++)
                found.add(((Entry) item).value);
              return found.size() < ties;
            });
    return new GenericArrayData(found.toArray());
  }

  @Override
  public void write(Object item, ByteSink out) {
    if (by >= 0) Value.write(out, ((Entry) item).by, byType);
    Value.write(out, by < 0 ? item : ((Entry) item).value, type);
  }

  @Override
  public Object read(ByteBuffer in) {
    if (by < 0) return Value.read(in, type);
    Object key = Value.read(in, byType);
    return new Entry(key, Value.read(in, type));
  }
}

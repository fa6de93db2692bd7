package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** The first `most` values by event time and value. */
final class Collect extends Aggregate {
  private final int input;
  private final DataType type;
  private final int most;
  private transient Ordering<Object> order;

  private record Item(long at, Object value) {}

  Collect(int input, DataType type, int most) {
    this.input = input;
    this.type = type;
    this.most = most;
  }

  @Override
  int cells() {
    return 1;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) take(to, new Item(at, Value.of(row, input, type)));
  }

  @SuppressWarnings("unchecked")
  private static ArrayList<Item> items(Accumulator of, int cell) {
    return (ArrayList<Item>) of.cells[cell];
  }

  private int compare(Item a, Item b) {
    int compared = Long.compare(a.at, b.at);
    return compared != 0 ? compared : order.compare(a.value, b.value);
  }

  private void take(Accumulator to, Item item) {
    if (order == null) order = Order.of(type);
    ArrayList<Item> items = items(to, cell);
    if (items == null) to.cells[cell] = items = new ArrayList<>(4);
    if (items.size() == most && compare(item, items.get(most - 1)) >= 0) return;
    int place = Collections.binarySearch(items, item, this::compare);
    items.add(place < 0 ? -place - 1 : place, item);
    if (items.size() > most) items.remove(most);
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) items(from, cell).forEach(item -> take(to, item));
  }

  @Override
  Object result(Accumulator of) {
    List<Item> items = of.cells[cell] == null ? List.of() : items(of, cell);
    return new GenericArrayData(items.stream().map(Item::value).toArray());
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    List<Item> items = from.cells[cell] == null ? List.of() : items(from, cell);
    out.putInt(items.size());
    for (Item item : items) {
      out.putLong(item.at);
      Value.write(out, item.value, type);
    }
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    int count = in.getInt();
    if (count == 0) return;
    ArrayList<Item> items = new ArrayList<>(count);
    for (int i = 0; i < count; i++) items.add(new Item(in.getLong(), Value.read(in, type)));
    to.cells[cell] = items;
  }
}

package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ObjIntConsumer;

/** Rows, each so many times; less than none where a row was taken back before it came. */
final class Bag {
  private final LinkedHashMap<Key, Integer> counts = new LinkedHashMap<>();
  private int total;

  /** How many rows there are. */
  int size() {
    return total;
  }

  boolean isEmpty() {
    return counts.isEmpty();
  }

  void add(Key row, int times) {
    total += times;
    counts.merge(row, times, (known, more) -> known + more == 0 ? null : known + more);
  }

  void each(ObjIntConsumer<byte[]> to) {
    for (Map.Entry<Key, Integer> one : counts.entrySet()) to.accept(one.getKey().bytes, one.getValue());
  }

  void write(ByteSink out) {
    out.putInt(counts.size());
    counts.forEach((row, times) -> out.putInt(times).putSized(row.bytes));
  }

  static Bag read(ByteBuffer in) {
    Bag bag = new Bag();
    for (int i = 0, size = in.getInt(); i < size; i++) {
      int times = in.getInt();
      bag.add(new Key(Value.sized(in)), times);
    }
    return bag;
  }
}

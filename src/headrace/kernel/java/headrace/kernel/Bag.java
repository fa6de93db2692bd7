package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ObjIntConsumer;
import java.util.function.Predicate;

/** Rows, each so many times; less than none where a row was taken back before it came. Most have one row, and no map. */
final class Bag {
  private Key only;
  private int times;
  private LinkedHashMap<Key, Integer> several;
  private int total;

  /** How many rows there are. */
  int size() {
    return total;
  }

  boolean isEmpty() {
    return only == null && several == null;
  }

  void add(Key row, int more) {
    total += more;
    if (several == null && (only == null || only.equals(row))) {
      times += more;
      only = times == 0 ? null : row;
      return;
    }
    if (several == null) {
      several = new LinkedHashMap<>();
      several.put(only, times);
      only = null;
      times = 0;
    }
    several.merge(row, more, (known, added) -> known + added == 0 ? null : known + added);
    if (several.isEmpty()) several = null;
  }

  void each(ObjIntConsumer<byte[]> to) {
    if (only != null) to.accept(only.bytes, times);
    if (several == null) return;
    for (Map.Entry<Key, Integer> one : several.entrySet()) to.accept(one.getKey().bytes, one.getValue());
  }

  /** Forgets rows; whether there were any. */
  boolean removeIf(Predicate<byte[]> over) {
    Bag left = new Bag();
    each((row, count) -> {
      if (!over.test(row)) left.add(new Key(row), count);
    });
    boolean changed = left.total != total || left.distinct() != distinct();
    only = left.only;
    times = left.times;
    several = left.several;
    total = left.total;
    return changed;
  }

  private int distinct() {
    return several != null ? several.size() : only != null ? 1 : 0;
  }

  Bag copy() {
    Bag copy = new Bag();
    each((row, count) -> copy.add(new Key(row), count));
    return copy;
  }

  void write(ByteSink out) {
    out.putInt(distinct());
    each((row, count) -> out.putInt(count).putSized(row));
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

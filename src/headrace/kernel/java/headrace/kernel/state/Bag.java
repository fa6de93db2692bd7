package headrace.kernel.state;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ObjIntConsumer;
import java.util.function.Predicate;

/**
 * Rows, each so many times; less than none where a row was taken back before it came.
 *
 * <p>Most only grow, or stay small: they are a list, in which a row that is there twice stands
 * twice. Where a row is to be found among many, or many are the same, they become a map.
 *
 * <p>Many rows are not written again for a few that come or go: a bag remembers what was added
 * since it was last written.
 */
public final class Bag {
  private static final int FEW = 16;
  private static final int MANY = 64;
  private static final byte[][] NONE = {};
  private static final int ALL = 0;
  private static final int SINCE = 1;

  private byte[][] listed = NONE;
  private int size;
  private LinkedHashMap<Key, Integer> counted;
  private int total;

  /**
   * What was added since the rows were last written; null where they are few, or it has become as
   * much.
   */
  private Bag since;

  /** How many rows there are. */
  public int size() {
    return total;
  }

  public boolean isEmpty() {
    return size == 0 && counted == null;
  }

  public void add(byte[] row, int more) {
    if (more == 0) return;
    total += more;
    if (since != null) note(row, more);
    if (counted == null && more == 1 && append(row)) return;
    if (counted == null && more == -1 && size <= FEW && delete(row)) return;
    if (counted == null) {
      counted = counts();
      listed = NONE;
      size = 0;
    }
    counted.merge(new Key(row), more, (known, added) -> known + added == 0 ? null : known + added);
    if (counted.isEmpty()) counted = null;
  }

  private void note(byte[] row, int more) {
    since.add(row, more);
    if (2 * since.entries() > entries()) since = null;
  }

  /** Puts a row to the list, unless it has become long and half of it is repeats. */
  private boolean append(byte[] row) {
    if (size == listed.length) {
      if (size >= MANY && 2 * counts().size() <= size) return false;
      listed = Arrays.copyOf(listed, Math.max(1, 2 * size));
    }
    listed[size++] = row;
    return true;
  }

  private LinkedHashMap<Key, Integer> counts() {
    LinkedHashMap<Key, Integer> counts = new LinkedHashMap<>();
    for (int i = 0; i < size; i++) counts.merge(new Key(listed[i]), 1, Integer::sum);
    return counts;
  }

  private boolean delete(byte[] row) {
    for (int i = 0; i < size; i++) {
      if (!Arrays.equals(listed[i], row)) continue;
      System.arraycopy(listed, i + 1, listed, i, --size - i);
      listed[size] = null;
      return true;
    }
    return false;
  }

  /**
   * The rows, each with how often it is there; one that is there several times may come several
   * times.
   */
  public void each(ObjIntConsumer<byte[]> to) {
    for (int i = 0; i < size; i++) to.accept(listed[i], 1);
    if (counted == null) return;
    for (Map.Entry<Key, Integer> one : counted.entrySet())
      to.accept(one.getKey().bytes, one.getValue());
  }

  /** Forgets rows; whether there were any. */
  public boolean removeIf(Predicate<byte[]> over) {
    Bag left = new Bag();
    boolean[] found = {false};
    each(
        (row, count) -> {
          if (over.test(row)) found[0] = true;
          else left.add(row, count);
        });
    listed = left.listed;
    size = left.size;
    counted = left.counted;
    total = left.total;
    if (found[0]) since = null;
    return found[0];
  }

  /** How many rows it holds in memory: of some it may know only how often they are there. */
  public int entries() {
    return counted == null ? size : counted.size();
  }

  public Bag copy() {
    Bag copy = new Bag();
    each(copy::add);
    return copy;
  }

  public void write(ByteSink out) {
    out.putInt(entries());
    each((row, count) -> out.putInt(count).putSized(row));
    keep();
  }

  public static Bag read(ByteBuffer in) {
    Bag bag = new Bag();
    int size = in.getInt();
    if (size > 0) bag.listed = new byte[size][];
    for (int i = 0; i < size; i++) {
      int times = in.getInt();
      bag.add(Value.sized(in), times);
    }
    bag.keep();
    return bag;
  }

  /** Whether what has changed is known and less than the whole. */
  public boolean isBrief() {
    return since != null;
  }

  /** Writes what was added since the rows were last written, or all where that is less. */
  public void writeChange(ByteSink out) {
    if (since == null) write(out.put(ALL));
    else since.write(out.put(SINCE));
    keep();
  }

  /** The rows after what {@link #writeChange} has written. */
  public Bag changed(ByteBuffer in) {
    if (in.get() == ALL) return read(in);
    read(in).each(this::add);
    keep();
    return this;
  }

  private void keep() {
    since = entries() < MANY ? null : new Bag();
  }
}

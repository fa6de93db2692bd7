package headrace.kernel.state;

import java.nio.ByteBuffer;
import java.util.function.LongConsumer;

/**
 * The keys of one bucket that were kept and when: a hash table of (128-bit key, time), open
 * addressing, without objects.
 */
public final class SeenKeys {
  private static final int ENTRY = 3 * Long.BYTES;

  private long[] table = new long[3 * 16];
  private boolean[] used = new boolean[16];
  private int size;

  public int size() {
    return size;
  }

  /** Whether the key was kept at a time less than `within` away. */
  public boolean contains(long high, long low, long at, long within) {
    int mask = used.length - 1;
    for (int i = (int) low & mask; used[i]; i = i + 1 & mask) {
      if (table[3 * i] == high
          && table[3 * i + 1] == low
          && Math.abs(at - table[3 * i + 2]) < within) return true;
    }
    return false;
  }

  public void add(long high, long low, long at) {
    if (2 * (size + 1) > used.length) grow();
    insert(high, low, at);
  }

  private void insert(long high, long low, long at) {
    int mask = used.length - 1;
    int i = (int) low & mask;
    while (used[i]) i = i + 1 & mask;
    used[i] = true;
    table[3 * i] = high;
    table[3 * i + 1] = low;
    table[3 * i + 2] = at;
    size++;
  }

  private void grow() {
    long[] old = table;
    boolean[] had = used;
    table = new long[old.length * 2];
    used = new boolean[had.length * 2];
    size = 0;
    for (int i = 0; i < had.length; i++)
      if (had[i]) insert(old[3 * i], old[3 * i + 1], old[3 * i + 2]);
  }

  /** Adds the entries that {@link #bytes} or {@link #entry} wrote and that are after `from`. */
  public void load(byte[] chunk, long from) {
    ByteBuffer in = ByteBuffer.wrap(chunk);
    while (in.remaining() >= ENTRY) {
      long high = in.getLong(), low = in.getLong(), at = in.getLong();
      if (at > from) add(high, low, at);
    }
  }

  /** Gives the time of every entry. */
  public void eachTime(LongConsumer to) {
    for (int i = 0; i < used.length; i++) if (used[i]) to.accept(table[3 * i + 2]);
  }

  public static void entry(ByteBuffer out, long high, long low, long at) {
    out.putLong(high).putLong(low).putLong(at);
  }

  public static ByteBuffer chunk(int entries) {
    return ByteBuffer.allocate(entries * ENTRY);
  }

  /** All entries, in no order. */
  public byte[] bytes() {
    ByteBuffer out = chunk(size);
    for (int i = 0; i < used.length; i++)
      if (used[i]) entry(out, table[3 * i], table[3 * i + 1], table[3 * i + 2]);
    return out.array();
  }
}

package headrace.kernel.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.streaming.MapState;

/**
 * The values of one bucket of a {@link ShardStore} as they are in the state.
 *
 * <p>First all of them, then chunk by chunk what has changed. Sixteen chunks become one of the next
 * level, so there are never many; when they are together as long as the values at first, or half of
 * these are gone, all are written anew. So what has changed is written a few times, however large
 * the bucket is.
 *
 * <p>A chunk is a row of entries: a key, a kind, and a value with its length.
 */
final class Chunks {
  static final int REMOVED = 0;
  static final int WHOLE = 1;

  /** What is to be done to the value that is there. */
  static final int CHANGE = 2;

  private static final int TIER = 16;
  private static final int FIRST = -1;

  private final long group;
  private final int bucket;
  private int first;
  private long after;
  private int number;

  /** How many rows there were at first. */
  private int rows;

  Chunks(long group, int bucket) {
    this.group = group;
    this.bucket = bucket;
  }

  /** Whether nothing is written yet. */
  boolean isNew() {
    return first == 0;
  }

  /** Whether all values are to be written anew rather than so many bytes more. */
  boolean isOutgrown(int more) {
    return after + more > first;
  }

  /** Whether chunks become one with the next. */
  boolean isMerging() {
    return number % TIER == TIER - 1;
  }

  /** Whether most of what is there is of rows that are gone, when there are so many. */
  boolean isEmptied(int left) {
    return 2L * left < rows;
  }

  /** How many bytes there are. */
  long length() {
    return first + after;
  }

  /** Writes all values, of so many rows, anew. */
  void begin(MapState<byte[], byte[]> data, byte[] all, int rows) {
    this.rows = rows;
    names().forEach(data::removeKey);
    data.updateValue(name(FIRST, 0), all);
    first = all.length;
    after = 0;
    number = 0;
  }

  /** Writes what has changed. */
  void add(MapState<byte[], byte[]> data, byte[] changes) {
    byte[] chunk = changes;
    int level = 0, place = number++;
    for (; place % TIER == TIER - 1; place /= TIER, level++) {
      List<byte[]> merged = new ArrayList<>(TIER);
      for (int i = 0; i < TIER - 1; i++) {
        byte[] name = name(level, i), one = data.getValue(name);
        data.removeKey(name);
        after -= one.length;
        merged.add(one);
      }
      merged.add(chunk);
      chunk = merge(merged);
    }
    data.updateValue(name(level, place % TIER), chunk);
    after += chunk.length;
  }

  /** The chunks, from the oldest. */
  void each(MapState<byte[], byte[]> data, Consumer<ByteBuffer> to) {
    if (isNew()) return;
    to.accept(ByteBuffer.wrap(data.getValue(name(FIRST, 0))));
    names().forEach(name -> to.accept(ByteBuffer.wrap(data.getValue(name))));
  }

  void remove(MapState<byte[], byte[]> data) {
    if (isNew()) return;
    data.removeKey(name(FIRST, 0));
    names().forEach(data::removeKey);
    first = number = 0;
    after = 0;
  }

  /** The names of the chunks after the first, from the oldest. */
  private List<byte[]> names() {
    List<byte[]> names = new ArrayList<>();
    int levels = 0;
    for (int left = number; left > 0; left /= TIER) levels++;
    for (int level = levels - 1; level >= 0; level--) {
      int there = (int) (number / Math.round(Math.pow(TIER, level)) % TIER);
      for (int i = 0; i < there; i++) names.add(name(level, i));
    }
    return names;
  }

  private byte[] name(int level, int place) {
    return new ByteSink(16).putLong(group).put(bucket).put(level).put(place).bytes();
  }

  /** The entries of several chunks without those that later ones make void. */
  private static byte[] merge(List<byte[]> chunks) {
    LinkedHashMap<Key, List<ByteBuffer>> entries = new LinkedHashMap<>();
    int length = 0;
    for (byte[] chunk : chunks) {
      length += chunk.length;
      for (ByteBuffer in = ByteBuffer.wrap(chunk); in.hasRemaining(); ) {
        int start = in.position();
        Key key = new Key(Value.sized(in));
        int kind = in.get(), size = in.getInt();
        in.position(in.position() + size);
        List<ByteBuffer> known = entries.computeIfAbsent(key, k -> new ArrayList<>(1));
        if (kind != CHANGE) known.clear();
        known.add(ByteBuffer.wrap(chunk, start, in.position() - start));
      }
    }
    ByteSink out = new ByteSink(length);
    entries
        .values()
        .forEach(
            known -> known.forEach(one -> out.put(one.array(), one.position(), one.remaining())));
    return out.bytes();
  }

  void write(ByteSink out) {
    out.putInt(first).putLong(after).putInt(number).putInt(rows);
  }

  void read(ByteBuffer in) {
    first = in.getInt();
    after = in.getLong();
    number = in.getInt();
    rows = in.getInt();
  }
}

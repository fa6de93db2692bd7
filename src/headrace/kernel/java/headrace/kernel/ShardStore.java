package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BiConsumer;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.ValueState;

/**
 * The state of one shard of an operator: values by group (a time, such as the start of a pane) and key.
 *
 * <p>It is worked on in memory and written when the operator says so, which must be before its task ends. The values of a
 * group are spread over buckets by their key; a bucket is read when one of its keys is asked for, and written as a chunk of
 * what has changed, or anew as one chunk when the chunks have become many. So a batch costs a few store operations a bucket
 * that it touches, not a few an event, and a group that is over costs nothing but its removal.
 *
 * <p>Between the tasks of a run the memory is kept ({@link #keep}, {@link #kept}) while it is what the store has.
 */
final class ShardStore<V> {
  /** Part of the layout of the state. */
  private static final int BUCKETS = 64;
  private static final int MOST_CHUNKS = 16;
  private static final int MOST_ENTRIES = 2_000_000;
  private static final ConcurrentHashMap<String, Kept> KEPT = new ConcurrentHashMap<>();

  private record Kept(UUID run, long batch, ShardStore<?> store) {
    /** Whether a task of the batch, or of a later one, can take it. */
    boolean isOf(QueryInfo of) {
      return run.equals(of.getRunId()) && batch >= of.getBatchId();
    }
  }

  /** How a value is written. */
  interface Codec<V> {
    void write(V value, ByteSink out);

    V read(ByteBuffer in);
  }

  private final class Group {
    final long id;
    final int[] chunks = new int[BUCKETS];
    final int[] sizes = new int[BUCKETS];
    final int[] lengths = new int[BUCKETS];
    @SuppressWarnings("unchecked")
    final KeyTable<V>[] buckets = new KeyTable[BUCKETS];
    boolean read;

    Group(long id, boolean read) {
      this.id = id;
      this.read = read;
    }
  }

  private final Codec<V> codec;
  private final TreeMap<Long, Group> groups = new TreeMap<>();
  private final HashSet<Group> changed = new HashSet<>();
  /** Numbers of the operator that are kept with the state. */
  final long[] marks;
  private final long[] marksWritten;
  /** What the operator derives from the state and wants to find again with it. */
  Object index;
  private boolean rootChanged;
  private int entries;
  private long storedEntries;
  private long storedBytes;
  /** Another after every write, by which the memory and what the store has are known to be the same; 0 before the first. */
  private long stamp;
  private MapState<byte[], byte[]> data;
  private ValueState<byte[]> root;

  private ShardStore(Codec<V> codec, long[] marks) {
    this.codec = codec;
    this.marks = marks.clone();
    this.marksWritten = marks.clone();
  }

  /** The store of a shard as it is in the state; `marks` are the numbers of an empty one. */
  static <V> ShardStore<V> open(Codec<V> codec, long[] marks, MapState<byte[], byte[]> data, ValueState<byte[]> root) {
    ShardStore<V> store = new ShardStore<>(codec, marks);
    store.bind(data, root);
    byte[] known = root.get();
    if (known != null) {
      ByteBuffer in = ByteBuffer.wrap(known);
      store.stamp = in.getLong();
      store.storedEntries = in.getLong();
      store.storedBytes = in.getLong();
      for (int i = 0; i < marks.length; i++) store.marks[i] = store.marksWritten[i] = in.getLong();
      while (in.hasRemaining()) {
        long id = in.getLong();
        store.groups.put(id, store.new Group(id, false));
      }
    }
    return store;
  }

  private void bind(MapState<byte[], byte[]> data, ValueState<byte[]> root) {
    this.data = data;
    this.root = root;
  }

  /**
   * The store that a task of this name left, if it is that of the run's batch before and what it wrote is in the state: another
   * attempt may have written it instead, elsewhere. Whoever takes it has it alone.
   */
  @SuppressWarnings("unchecked")
  static <V> ShardStore<V> kept(String name, QueryInfo of, MapState<byte[], byte[]> data, ValueState<byte[]> root) {
    Kept kept = KEPT.remove(name);
    if (kept == null || kept.batch != of.getBatchId() || !kept.run.equals(of.getRunId())) return null;
    byte[] known = root.get();
    if ((known == null ? 0 : ByteBuffer.wrap(known).getLong()) != kept.store.stamp) return null;
    ShardStore<V> store = (ShardStore<V>) kept.store;
    store.bind(data, root);
    return store;
  }

  /** Leaves the store, which must be flushed, for the task of the batch after; those of shards that have moved away go. */
  void keep(String name, QueryInfo of) {
    String query = name.substring(0, name.indexOf('\t') + 1);
    KEPT.entrySet().removeIf(one -> one.getKey().startsWith(query) && !one.getValue().isOf(of));
    KEPT.put(name, new Kept(of.getRunId(), of.getBatchId() + 1, this));
  }

  /** Forgets what is kept of a query. */
  static void forget(String query) {
    KEPT.keySet().removeIf(name -> name.startsWith(query + '\t'));
  }

  /** The groups there are, in order. */
  Iterable<Long> groups() {
    return new ArrayList<>(groups.keySet());
  }

  Long firstGroup() {
    return groups.isEmpty() ? null : groups.firstKey();
  }

  boolean isNew(long group) {
    return !groups.containsKey(group);
  }

  /** The groups from `from` to before `to`. */
  List<Long> groups(long from, long to) {
    return new ArrayList<>(groups.subMap(from, to).keySet());
  }

  V get(long group, Key key) {
    Group found = groups.get(group);
    return found == null ? null : bucket(found, key).get(key);
  }

  /** Sets a value, or notes that the one that is there was changed. */
  void put(long group, Key key, V value) {
    Group found = groups.get(group);
    if (found == null) {
      groups.put(group, found = new Group(group, true));
      rootChanged = true;
    }
    if (bucket(found, key).put(key, value)) entries++;
    changed.add(found);
  }

  void remove(long group, Key key) {
    Group found = groups.get(group);
    if (found == null) return;
    if (!bucket(found, key).remove(key)) return;
    entries--;
    changed.add(found);
  }

  /** Removes a group and all that is in it. */
  void drop(long group) {
    Group found = groups.remove(group);
    if (found == null) return;
    read(found);
    for (int b = 0; b < BUCKETS; b++) {
      if (found.buckets[b] != null) entries -= found.buckets[b].size();
      for (int c = 0; c < found.chunks[b]; c++) data.removeKey(name(group, b, c));
      storedEntries -= found.sizes[b];
      storedBytes -= found.lengths[b];
    }
    data.removeKey(name(group, -1, 0));
    changed.remove(found);
    rootChanged = true;
  }

  void each(long group, BiConsumer<Key, V> to) {
    Group found = groups.get(group);
    if (found == null) return;
    read(found);
    for (int b = 0; b < BUCKETS; b++) {
      if (found.buckets[b] == null && found.chunks[b] == 0) continue;
      load(found, b).each(to);
    }
  }

  /** How many values the store holds. */
  long entries() {
    return storedEntries;
  }

  /** How many bytes they take there. */
  long bytes() {
    return storedBytes;
  }

  private KeyTable<V> bucket(Group group, Key key) {
    read(group);
    return load(group, (key.hash >>> 16) & BUCKETS - 1);
  }

  private void read(Group group) {
    if (group.read) return;
    group.read = true;
    byte[] known = data.getValue(name(group.id, -1, 0));
    if (known == null) return;
    ByteBuffer in = ByteBuffer.wrap(known);
    for (int b = 0; b < BUCKETS; b++) {
      group.chunks[b] = in.get();
      group.sizes[b] = in.getInt();
      group.lengths[b] = in.getInt();
    }
  }

  private KeyTable<V> load(Group group, int number) {
    KeyTable<V> bucket = group.buckets[number];
    if (bucket != null) return bucket;
    bucket = group.buckets[number] = new KeyTable<>();
    for (int c = 0; c < group.chunks[number]; c++) {
      ByteBuffer in = ByteBuffer.wrap(data.getValue(name(group.id, number, c)));
      while (in.hasRemaining()) {
        Key key = new Key(Value.sized(in));
        bucket.load(key, in.get() == 0 ? null : codec.read(in));
      }
    }
    entries += bucket.size();
    return bucket;
  }

  /** Writes what has changed. */
  void flush() {
    for (Group group : changed) {
      for (int b = 0; b < BUCKETS; b++) {
        KeyTable<V> bucket = group.buckets[b];
        if (bucket == null || bucket.changes() == 0) continue;
        boolean anew = group.chunks[b] == 0 || group.chunks[b] >= MOST_CHUNKS
            || 2 * bucket.changes() > bucket.size();
        ByteSink out = new ByteSink(64 * (anew ? bucket.size() : bucket.changes()));
        if (anew) {
          bucket.each((key, value) -> write(key, value, out));
          for (int c = 1; c < group.chunks[b]; c++) data.removeKey(name(group.id, b, c));
          group.chunks[b] = 0;
        } else {
          bucket.eachChange((key, value) -> write(key, value, out));
        }
        data.updateValue(name(group.id, b, group.chunks[b]++), out.bytes());
        bucket.written();
        int length = out.size() + (anew ? 0 : group.lengths[b]);
        storedEntries += bucket.size() - group.sizes[b];
        storedBytes += length - group.lengths[b];
        group.sizes[b] = bucket.size();
        group.lengths[b] = length;
      }
      ByteSink counts = new ByteSink(9 * BUCKETS);
      for (int b = 0; b < BUCKETS; b++) counts.put(group.chunks[b]).putInt(group.sizes[b]).putInt(group.lengths[b]);
      data.updateValue(name(group.id, -1, 0), counts.bytes());
      rootChanged = true;
    }
    changed.clear();
    if (rootChanged || !Arrays.equals(marks, marksWritten)) {
      stamp = ThreadLocalRandom.current().nextLong();
      ByteSink out = new ByteSink(8 * (3 + marks.length + groups.size()));
      out.putLong(stamp).putLong(storedEntries).putLong(storedBytes);
      for (long mark : marks) out.putLong(mark);
      for (long id : groups.keySet()) out.putLong(id);
      root.update(out.bytes());
      rootChanged = false;
      System.arraycopy(marks, 0, marksWritten, 0, marks.length);
    }
    if (entries > MOST_ENTRIES) unload();
  }

  private void unload() {
    for (Map.Entry<Long, Group> entry : groups.entrySet()) Arrays.fill(entry.getValue().buckets, null);
    entries = 0;
  }

  private void write(Key key, V value, ByteSink out) {
    out.putSized(key.bytes);
    out.put(value == null ? 0 : 1);
    if (value != null) codec.write(value, out);
  }

  private static byte[] name(long group, int bucket, int chunk) {
    return new ByteSink(16).putLong(group).put(bucket).put(chunk).bytes();
  }
}

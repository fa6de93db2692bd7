package headrace.kernel.state;

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
 * The state of one shard of an operator: values by group (a time, such as the start of a pane) and
 * key.
 *
 * <p>It is worked on in memory and written when the operator says so, which must be before its task
 * ends. The values of a group are spread over buckets by their key; a bucket is read when one of
 * its keys is asked for, and what has changed of it is written as one of its {@link Chunks}. So a
 * batch costs a few store operations a bucket that it touches, not a few an event, and a group that
 * is over costs nothing but its removal.
 *
 * <p>Between the tasks of a run the memory is kept ({@link #keep}, {@link #kept}) while it is what
 * the store has. The stores of a process share what it has. One that finds it used up lets go of
 * stores that nobody has asked for since its own last batch, then of its own buckets that it has
 * not used in this one, then of others; they are read again when they are asked for.
 */
public final class ShardStore<V> {
  /** Part of the layout of the state. */
  private static final int BUCKETS = 64;

  /** The bytes that a row takes in memory beside its own, roughly. */
  private static final long ROW_WEIGHT = 128;

  /** What all stores of the process may weigh. */
  static long most = Runtime.getRuntime().maxMemory() / 2;

  private static final ConcurrentHashMap<String, Kept> KEPT = new ConcurrentHashMap<>();

  private record Kept(UUID run, long batch, long since, ShardStore<?> store) {
    /** Whether a task of the batch, or of a later one, can take it. */
    boolean isOf(QueryInfo of) {
      return run.equals(of.getRunId()) && batch >= of.getBatchId();
    }
  }

  /** How a value is written. */
  public interface Codec<V> {
    void write(V value, ByteSink out);

    V read(ByteBuffer in);

    /** How many rows a value is made of. */
    default int rows(V value) {
      return 1;
    }

    /**
     * Whether what has changed of a value since it was last written is known, and less than the
     * value.
     */
    default boolean isBrief(V value) {
      return false;
    }

    /** Writes only that. */
    default void writeChange(V value, ByteSink out) {
      throw new UnsupportedOperationException();
    }

    /** Does to a value what {@link #writeChange} has written. */
    default void readChange(V value, ByteBuffer in) {
      throw new UnsupportedOperationException();
    }
  }

  private final class Group {
    final long id;
    final Chunks[] chunks = new Chunks[BUCKETS];
    final int[] sizes = new int[BUCKETS];

    /**
     * What the buckets that are in memory take there, as far as they are written; and which are in
     * use.
     */
    final long[] weights = new long[BUCKETS];

    final boolean[] used = new boolean[BUCKETS];

    @SuppressWarnings({"unchecked", "rawtypes"})
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
  public final long[] marks;

  private final long[] marksWritten;

  /** What the operator derives from the state and wants to find again with it. */
  public Object index;

  private boolean rootChanged;
  private long weight;
  private long since = System.nanoTime();
  private long storedEntries;
  private long storedBytes;

  /**
   * Another after every write, by which the memory and what the store has are known to be the same;
   * 0 before the first.
   */
  private long stamp;

  private MapState<byte[], byte[]> data;
  private ValueState<byte[]> root;

  private ShardStore(Codec<V> codec, long[] marks) {
    this.codec = codec;
    this.marks = marks.clone();
    this.marksWritten = marks.clone();
  }

  /** The store of a shard as it is in the state; `marks` are the numbers of an empty one. */
  public static <V> ShardStore<V> open(
      Codec<V> codec, long[] marks, MapState<byte[], byte[]> data, ValueState<byte[]> root) {
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
   * The store that a task of this name left, if it is that of the run's batch before and what it
   * wrote is in the state: another attempt may have written it instead, elsewhere. Whoever takes it
   * has it alone.
   */
  @SuppressWarnings("unchecked")
  public static <V> ShardStore<V> kept(
      String name, QueryInfo of, MapState<byte[], byte[]> data, ValueState<byte[]> root) {
    Kept kept = KEPT.remove(name);
    if (kept == null || kept.batch != of.getBatchId() || !kept.run.equals(of.getRunId()))
      return null;
    byte[] known = root.get();
    if ((known == null ? 0 : ByteBuffer.wrap(known).getLong()) != kept.store.stamp) return null;
    ShardStore<V> store = (ShardStore<V>) kept.store;
    store.bind(data, root);
    return store;
  }

  /**
   * Leaves the store, which must be flushed, for the task of the batch after; those of shards that
   * have moved away go.
   */
  public void keep(String name, QueryInfo of) {
    String query = name.substring(0, name.indexOf('\t') + 1);
    KEPT.entrySet().removeIf(one -> one.getKey().startsWith(query) && !one.getValue().isOf(of));
    since = System.nanoTime();
    KEPT.put(name, new Kept(of.getRunId(), of.getBatchId() + 1, since, this));
  }

  /** Forgets what is kept of a query. */
  public static void forget(String query) {
    KEPT.keySet().removeIf(name -> name.startsWith(query + '\t'));
  }

  /** The groups there are, in order. */
  public Iterable<Long> groups() {
    return new ArrayList<>(groups.keySet());
  }

  public Long firstGroup() {
    return groups.isEmpty() ? null : groups.firstKey();
  }

  public boolean isNew(long group) {
    return !groups.containsKey(group);
  }

  /** The groups from `from` to before `to`. */
  public List<Long> groups(long from, long to) {
    return new ArrayList<>(groups.subMap(from, to).keySet());
  }

  public V get(long group, Key key) {
    Group found = groups.get(group);
    return found == null ? null : bucket(found, key).get(key);
  }

  /** Sets a value, or notes that the one that is there was changed. */
  public void put(long group, Key key, V value) {
    Group found = groups.get(group);
    if (found == null) {
      groups.put(group, found = new Group(group, true));
      rootChanged = true;
    }
    bucket(found, key).put(key, value);
    changed.add(found);
  }

  public void remove(long group, Key key) {
    Group found = groups.get(group);
    if (found == null) return;
    if (bucket(found, key).remove(key)) changed.add(found);
  }

  /** Removes a group and all that is in it. */
  public void drop(long group) {
    Group found = groups.remove(group);
    if (found == null) return;
    read(found);
    for (int b = 0; b < BUCKETS; b++) {
      Chunks chunks = found.chunks[b];
      unload(found, b);
      if (chunks == null) continue;
      storedEntries -= found.sizes[b];
      storedBytes -= chunks.length();
      chunks.remove(data);
    }
    data.removeKey(name(group));
    changed.remove(found);
    rootChanged = true;
  }

  public void each(long group, BiConsumer<Key, V> to) {
    Group found = groups.get(group);
    if (found == null) return;
    read(found);
    for (int b = 0; b < BUCKETS; b++) {
      if (found.buckets[b] == null && found.chunks[b] == null) continue;
      load(found, b).each(to);
    }
  }

  /** How many values the store holds. */
  public long entries() {
    return storedEntries;
  }

  /** How many bytes they take there. */
  public long bytes() {
    return storedBytes;
  }

  /** What is in memory takes there, roughly. */
  long weight() {
    return weight;
  }

  private KeyTable<V> bucket(Group group, Key key) {
    read(group);
    int number = (key.hash >>> 16) & BUCKETS - 1;
    group.used[number] = true;
    return load(group, number);
  }

  private void read(Group group) {
    if (group.read) return;
    group.read = true;
    byte[] known = data.getValue(name(group.id));
    if (known == null)
      throw new IllegalStateException("the state was written by another version of Headrace");
    for (ByteBuffer in = ByteBuffer.wrap(known); in.hasRemaining(); ) {
      int bucket = in.get();
      group.sizes[bucket] = in.getInt();
      (group.chunks[bucket] = new Chunks(group.id, bucket)).read(in);
    }
  }

  private KeyTable<V> load(Group group, int number) {
    if (group.buckets[number] != null) return group.buckets[number];
    KeyTable<V> bucket = group.buckets[number] = new KeyTable<>();
    Chunks chunks = group.chunks[number];
    if (chunks == null) return bucket;
    chunks.each(
        data,
        chunk -> {
          while (chunk.hasRemaining()) read(bucket, chunk);
        });
    weigh(group, number, chunks.length() + ROW_WEIGHT * rows(bucket));
    return bucket;
  }

  private void read(KeyTable<V> bucket, ByteBuffer chunk) {
    Key key = new Key(Value.sized(chunk));
    int kind = chunk.get();
    chunk.getInt(); // how long the value is, for who does not know it
    if (kind == Chunks.CHANGE) codec.readChange(bucket.get(key), chunk);
    else bucket.load(key, kind == Chunks.REMOVED ? null : codec.read(chunk));
  }

  /** Writes what has changed. */
  public void flush() {
    for (Group group : changed) {
      ByteSink counts = new ByteSink(17 * BUCKETS);
      for (int b = 0; b < BUCKETS; b++) {
        if (group.buckets[b] != null && group.buckets[b].changes() > 0) flush(group, b);
        if (group.chunks[b] == null) continue;
        group.chunks[b].write(counts.put(b).putInt(group.sizes[b]));
      }
      data.updateValue(name(group.id), counts.bytes());
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
    makeRoom();
    for (Group group : groups.values()) Arrays.fill(group.used, false);
  }

  private void flush(Group group, int number) {
    KeyTable<V> bucket = group.buckets[number];
    Chunks chunks = group.chunks[number];
    if (chunks == null) chunks = group.chunks[number] = new Chunks(group.id, number);
    long before = chunks.length();
    ByteSink out = new ByteSink(64 * bucket.changes());
    boolean anew =
        chunks.isNew()
            || isMostlyChanged(bucket)
            || (chunks.isMerging() && chunks.isEmptied(rows(bucket)));
    if (!anew) {
      bucket.eachChange(
          (key, value) -> write(key, value, out, value != null && codec.isBrief(value)));
      anew = chunks.isOutgrown(out.size());
    }
    if (bucket.size() == 0) {
      chunks.remove(data);
      group.chunks[number] = null;
      weigh(group, number, 0);
    } else if (anew) {
      out.reset();
      bucket.each((key, value) -> write(key, value, out, false));
      int rows = rows(bucket);
      chunks.begin(data, out.bytes(), rows);
      weigh(group, number, chunks.length() + ROW_WEIGHT * rows);
    } else {
      chunks.add(data, out.bytes());
      weigh(group, number, (long) ((double) group.weights[number] * chunks.length() / before));
    }
    bucket.written();
    storedBytes += chunks.length() - before;
    storedEntries += bucket.size() - group.sizes[number];
    group.sizes[number] = bucket.size();
  }

  private int rows(KeyTable<V> bucket) {
    int[] rows = {0};
    bucket.each((key, value) -> rows[0] += codec.rows(value));
    return rows[0];
  }

  private void weigh(Group group, int number, long now) {
    weight += now - group.weights[number];
    group.weights[number] = now;
  }

  /**
   * Lets go of what is least in use, as far as all stores weigh too much; everything is written.
   */
  private void makeRoom() {
    long excess = weight - most;
    for (Kept kept : KEPT.values()) excess += kept.store.weight;
    if (excess <= 0) return;
    for (Map.Entry<String, Kept> one : KEPT.entrySet()) {
      Kept kept = one.getValue();
      if (excess > 0 && kept.since < since && KEPT.remove(one.getKey(), kept))
        excess -= kept.store.weight;
    }
    long target = weight - excess;
    for (boolean used : new boolean[] {false, true}) {
      for (Group group : groups.values()) {
        for (int b = 0; b < BUCKETS && weight > target; b++)
          if (group.used[b] == used) unload(group, b);
      }
    }
  }

  private void unload(Group group, int number) {
    weigh(group, number, 0);
    group.buckets[number] = null;
  }

  /** Whether to write what has changed is to write most of the bucket. */
  private boolean isMostlyChanged(KeyTable<V> bucket) {
    if (2 * bucket.changes() <= bucket.size()) return false;
    boolean[] whole = {true};
    bucket.eachChange((key, value) -> whole[0] &= value == null || !codec.isBrief(value));
    return whole[0];
  }

  private void write(Key key, V value, ByteSink out, boolean brief) {
    out.putSized(key.bytes)
        .put(value == null ? Chunks.REMOVED : brief ? Chunks.CHANGE : Chunks.WHOLE);
    int start = out.putInt(0).size();
    if (brief) codec.writeChange(value, out);
    else if (value != null) codec.write(value, out);
    out.setInt(start - Integer.BYTES, out.size() - start);
  }

  private static byte[] name(long group) {
    return new ByteSink(16).putLong(group).bytes();
  }
}

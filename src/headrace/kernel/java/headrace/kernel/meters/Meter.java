package headrace.kernel.meters;

import headrace.kernel.state.Key;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Function;

/**
 * What the kernel has seen, while a batch is still running.
 *
 * <p>Spark reports a batch when it ends, and a real-time batch lasts minutes. So each task writes
 * its counts to a gauge, {@link MeterPlugin} carries the gauges of every executor to the driver a
 * few times a second, and the engine reads {@link #snapshot} there. Counts are of this run: after a
 * crash, rows that are read again are counted again.
 *
 * <p>A query is known by its `RunName`. Of an executor that was lost, what it has counted stays;
 * where it was, what it remembered and what it had yet to write do not: others have taken its
 * place.
 */
public final class Meter {
  public static final int ROWS = 0;
  public static final int DEAD = 1;
  public static final int LATE = 2;
  public static final int REPEATS = 3;

  /**
   * Rows sent to an operator, and taken by it: with marker 0, and in the next slot with marker 1.
   */
  public static final int SENT = 4;

  public static final int TAKEN = 6;

  /** Records that are in the log. */
  public static final int WRITTEN = 8;

  public static final int OFFSET = 9;
  public static final int EVENT_TIME = 10;
  public static final int KEYS = 11;
  public static final int BYTES = 12;
  public static final int UNWRITTEN = 13;
  private static final int SLOTS = 14;
  private static final int FIRST_MAXIMUM = OFFSET;
  private static final String LOCAL_EXECUTOR = "driver"; // Spark's name for it

  private static final ConcurrentHashMap<String, Gauge> GAUGES = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, HotKeys> KEYS_OF = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, Map<String, long[]>> EXECUTORS =
      new ConcurrentHashMap<>();
  private static final Set<String> LOST = ConcurrentHashMap.newKeySet();

  private Meter() {}

  /**
   * The counts of one source partition or operator partition. One task writes a slot at a time: of
   * an operator's, {@link #SENT} is written by the task that sends, and the others by the one that
   * takes.
   */
  public static final class Gauge {
    private final AtomicLongArray values = new AtomicLongArray(SLOTS);

    /** Of a sink: how long its records took. */
    private volatile Latencies latencies;

    Gauge() {
      values.set(OFFSET, -1);
      values.set(EVENT_TIME, Long.MIN_VALUE);
      values.set(KEYS, -1);
      values.set(BYTES, -1);
      values.set(UNWRITTEN, Long.MIN_VALUE);
    }

    public void add(int slot) {
      add(slot, 1);
    }

    public void add(int slot, long count) {
      values.lazySet(slot, values.getPlain(slot) + count);
    }

    public void set(int slot, long value) {
      values.lazySet(slot, value);
    }

    public void raise(int slot, long value) {
      if (value > values.getPlain(slot)) values.lazySet(slot, value);
    }

    /** So many rows with either marker were taken, and what came of them was passed on. */
    public void taken(int[] rows) {
      for (int marker = 0; marker < rows.length; marker++) add(TAKEN + marker, rows[marker]);
    }

    /** So many records were written; any task may say it. */
    void written(long count) {
      values.getAndAdd(WRITTEN, count);
    }

    Latencies latencies() {
      Latencies known = latencies;
      if (known != null) return known;
      synchronized (this) {
        if (latencies == null) latencies = new Latencies();
        return latencies;
      }
    }

    long[] read() {
      Latencies known = latencies;
      long[] copy = new long[known == null ? SLOTS : SLOTS + Latencies.BUCKETS];
      for (int i = 0; i < SLOTS; i++) copy[i] = values.get(i);
      if (known != null) known.read(copy, SLOTS);
      return copy;
    }
  }

  /** The gauge of a query's source or operator (`of`) for one partition. */
  public static Gauge gauge(String query, String of, int partition) {
    return GAUGES.computeIfAbsent(query + '\t' + of + '\t' + partition, key -> new Gauge());
  }

  /**
   * What is known of the keys that the tasks of this number send to an operator, and how one is
   * written as text.
   */
  public static HotKeys keys(String operator, int partition, Function<Key, String> text) {
    return KEYS_OF.computeIfAbsent(operator + '\t' + partition, name -> new HotKeys(text));
  }

  static HashMap<String, long[]> read() {
    InFlight.tell();
    HashMap<String, long[]> all = new HashMap<>();
    GAUGES.forEach((key, gauge) -> all.put(key, gauge.read()));
    KEYS_OF.forEach(
        (name, keys) -> {
          Map.Entry<String, long[]> hottest = keys.hottest();
          if (hottest != null) all.put(name + '\t' + hottest.getKey(), hottest.getValue());
        });
    return all;
  }

  /** A session begins, with executors of its own. */
  static void begin() {
    EXECUTORS.clear();
    LOST.clear();
  }

  static synchronized void receive(String executor, Map<String, long[]> gauges) {
    if (!LOST.contains(executor))
      EXECUTORS.put(executor, gauges); // what it has sent before may come after its end
  }

  /** An executor is gone for good. */
  static synchronized void lose(String executor) {
    LOST.add(executor);
    EXECUTORS.computeIfPresent(
        executor,
        (name, gauges) -> {
          HashMap<String, long[]> counts = new HashMap<>();
          gauges.forEach(
              (key, values) -> {
                if (values.length >= SLOTS) counts.put(key, counted(values));
              });
          return counts;
        });
  }

  private static long[] counted(long[] values) {
    long[] counts = values.clone();
    counts[OFFSET] = counts[KEYS] = counts[BYTES] = -1;
    counts[UNWRITTEN] = Long.MIN_VALUE;
    return counts;
  }

  /** Forgets a query that has ended. */
  public static void forget(String query) {
    InFlight.forget(query);
    Marker.forget(query);
    GAUGES.keySet().removeIf(key -> key.startsWith(query + '\t'));
    KEYS_OF.keySet().removeIf(key -> key.startsWith(query + '\t'));
    EXECUTORS.replaceAll(
        (executor, gauges) -> {
          HashMap<String, long[]> kept = new HashMap<>(gauges);
          kept.keySet().removeIf(key -> key.startsWith(query + '\t'));
          return kept;
        });
  }

  /** That of what a query writes, over all its tasks. */
  public static Gauge sink(String query) {
    return gauge(query, "sink", 0);
  }

  /**
   * One line a gauge over all executors: query, source or operator, partition, and the values,
   * separated by tabs; behind those of a sink its {@link Latencies}. A line with a text after the
   * partition is of an operator's most frequent key: how often it was noted, and how often any was.
   */
  public static String snapshot() {
    if (!GAUGES.isEmpty())
      receive(LOCAL_EXECUTOR, read()); // a local run's tasks are in this JVM: no need to wait
    TreeMap<String, long[]> total = new TreeMap<>();
    for (Map<String, long[]> gauges : EXECUTORS.values()) {
      gauges.forEach((key, values) -> total.merge(key, values, Meter::combine));
    }
    StringBuilder out = new StringBuilder();
    total.forEach(
        (key, values) -> {
          out.append(key);
          for (long value : values) out.append('\t').append(value);
          out.append('\n');
        });
    return out.toString();
  }

  private static long[] combine(long[] a, long[] b) {
    long[] out = Arrays.copyOf(a, Math.max(a.length, b.length));
    for (int i = 0; i < b.length; i++)
      out[i] = i < FIRST_MAXIMUM || i >= SLOTS ? out[i] + b[i] : Math.max(out[i], b[i]);
    return out;
  }
}

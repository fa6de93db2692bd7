package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.meters.Meter;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Aggregates over tumbling and hopping windows; operators/window.py says what they mean.
 *
 * <p>State: what was gathered by pane and key. When the clock passes the end of a window, the panes
 * of it are put together and the result is given; a pane is dropped when no window that holds it
 * can change any more. A row for a window that was given already, or any row when windows are given
 * early, gives the old result with a minus and the new one with a plus.
 */
final class Windows extends ShardProcessor<Accumulator> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Tumbling> TUMBLING =
      new OperatorKind<>("tumbling", 3, Tumbling.class, Windows::new);
  static final OperatorKind<Hopping> HOPPING =
      new OperatorKind<>("hopping", 3, Hopping.class, Windows::new);
  private static final int PASSED = OWN_MARKS;

  private final Windowing windowing;
  private transient LinkedHashMap<Window, Object[]> touched;
  private transient ResultRow result;
  private transient long nextDue;
  private transient boolean dueKnown;

  private record Window(long start, Key key) {}

  /** What both kinds of windows have. */
  private interface Options extends OperatorOptions {
    Windowing windowing();

    @Override
    default Iterator<byte[]> gathered(
        Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
      return new GatheredPanes(operator, watermark, windowing(), rows);
    }
  }

  /** Windows side by side; with a time zone their size and offset are whole days of it. */
  record Tumbling(
      long sizeMs, long offsetMs, String timezone, boolean early, long latenessMs, boolean dropLate)
      implements Options {
    @Override
    public Windowing windowing() {
      long size = OperatorOptions.micros(sizeMs), offset = OperatorOptions.micros(offsetMs);
      return timezone == null
          ? Windowing.even(size, size, offset)
          : Windowing.days(timezone, size, offset);
    }
  }

  /** Windows of which one begins every so often. */
  record Hopping(
      long sizeMs, long everyMs, long offsetMs, boolean early, long latenessMs, boolean dropLate)
      implements Options {
    @Override
    public Windowing windowing() {
      return Windowing.even(
          OperatorOptions.micros(sizeMs),
          OperatorOptions.micros(everyMs),
          OperatorOptions.micros(offsetMs));
    }
  }

  private Windows(Operator operator, Options options) {
    super(operator);
    this.windowing = options.windowing();
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<Accumulator> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Accumulator value, ByteSink out) {
        operator.aggregates.write(value, out);
      }

      @Override
      public Accumulator read(ByteBuffer in) {
        return operator.aggregates.read(in);
      }
    };
  }

  @Override
  void opened() {
    touched = new LinkedHashMap<>();
    result = new ResultRow(operator);
    dueKnown = false;
  }

  /** Up to when windows have been given; only what lies in the state counts in exact mode. */
  private long passed() {
    return store.marks[PASSED];
  }

  private long clock() {
    return Math.max(now, passed());
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    long pane = windowing.pane(at);
    if (over(pane)) {
      late(at);
      return;
    }
    Accumulator known = touch(key, pane);
    if (known == null) known = operator.aggregates.empty();
    operator.aggregates.add(known, row, at);
    put(pane, key, known);
  }

  @Override
  void take(Key key, long pane, int rows, Accumulator gathered) {
    if (over(pane)) {
      // Only after a change of mode: the sender goes by Spark's watermark, and the shard's own was
      // ahead of it.
      gauge.add(Meter.LATE, rows);
      return;
    }
    Accumulator known = touch(key, pane);
    if (known == null) {
      put(pane, key, gathered);
    } else {
      operator.aggregates.merge(known, gathered);
      put(pane, key, known);
    }
  }

  private void put(long pane, Key key, Accumulator value) {
    if (dueKnown && store.isNew(pane)) dueKnown = false;
    store.put(pane, key, value);
  }

  private boolean over(long pane) {
    return windowing.lastEnd(pane) + operator.lateness <= Math.max(horizon, passed());
  }

  /** Notes what will change with this pane and key, and gives what is known of it. */
  private Accumulator touch(Key key, long pane) {
    long passed = passed(), over = Math.max(horizon, passed);
    for (long w = windowing.lastWindow(pane); windowing.end(w) > pane; w = windowing.before(w)) {
      long end = windowing.end(w);
      if (end + operator.lateness <= over) break;
      if (operator.early || end <= passed) {
        Window window = new Window(w, key);
        if (!touched.containsKey(window)) touched.put(window, values(window));
      }
    }
    return store.get(pane, key);
  }

  /** The result of a window for a key, or null when there is nothing in it. */
  private Object[] values(Window window) {
    Accumulator sum = null, own = null;
    for (long pane : store.groups(window.start, windowing.end(window.start))) {
      Accumulator part = store.get(pane, window.key);
      if (part == null) continue;
      if (sum == null) {
        sum = part;
        continue;
      }
      if (own == null) {
        own = operator.aggregates.empty();
        operator.aggregates.merge(own, sum);
        sum = own;
      }
      operator.aggregates.merge(own, part);
    }
    return sum == null ? null : values(window, sum);
  }

  private Object[] values(Window window, Accumulator sum) {
    return result.of(window.key, window.start, windowing.end(window.start), sum);
  }

  @Override
  boolean settle() {
    Map.Entry<Window, Object[]> change = poll(touched);
    if (change == null) return false;
    Object[] before = change.getValue(), after = values(change.getKey());
    if (!Arrays.deepEquals(before, after)) replace(before, after);
    return true;
  }

  @Override
  void pass() {
    long clock = clock();
    if (clock < due()) return;
    if (!operator.early) {
      long passed = passed();
      TreeSet<Long> ended = new TreeSet<>();
      for (long pane : store.groups()) {
        for (long w = windowing.lastWindow(pane);
            windowing.end(w) > Math.max(pane, passed);
            w = windowing.before(w)) {
          if (windowing.end(w) <= clock) ended.add(w);
        }
      }
      for (long window : ended) give(window);
    }
    store.marks[PASSED] = Math.max(passed(), clock);
    for (long pane : store.groups()) {
      if (windowing.lastEnd(pane) + operator.lateness <= clock) store.drop(pane);
    }
    dueKnown = false;
  }

  private void give(long window) {
    List<Long> panes = store.groups(window, windowing.end(window));
    if (panes.size() == 1) {
      store.each(
          panes.get(0), (key, value) -> emit(values(new Window(window, key), value), key, window));
      return;
    }
    HashMap<Key, Accumulator> sums = new HashMap<>();
    for (long pane : panes) {
      store.each(
          pane,
          (key, value) -> {
            operator.aggregates.merge(
                sums.computeIfAbsent(key, k -> operator.aggregates.empty()), value);
          });
    }
    sums.forEach((key, sum) -> emit(values(new Window(window, key), sum), key, window));
  }

  @Override
  long due() {
    if (dueKnown) return nextDue;
    nextDue = Long.MAX_VALUE;
    dueKnown = true;
    long passed = passed();
    for (long pane : store.groups()) {
      long last = windowing.lastWindow(pane), due = windowing.end(last) + operator.lateness;
      if (!operator.early) {
        for (long w = last; windowing.end(w) > Math.max(pane, passed); w = windowing.before(w))
          due = windowing.end(w);
      }
      nextDue = Math.min(nextDue, due);
    }
    return nextDue;
  }
}

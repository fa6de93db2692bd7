package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.LinkedHashSet;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Aggregates over all rows of a key so far, told after so many rows or when so much event time has
 * passed; `global_` in operators/window.py says what it means.
 *
 * <p>State: what was gathered by key, for ever, and what was told last, which the next telling
 * takes back.
 */
final class GlobalWindow extends ShardProcessor<GlobalWindow.Group> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("global", 3, Options.class, GlobalWindow::new);
  private static final int PASSED = OWN_MARKS;
  private static final long ALL = 0;

  private final long everyRows;
  private final long every;
  private transient ResultRow result;
  private transient LinkedHashSet<Key> waiting;

  /** What is known of a key. */
  static final class Group {
    final Accumulator values;
    Accumulator told;
    long untold;

    Group(Accumulator values, Accumulator told, long untold) {
      this.values = values;
      this.told = told;
      this.untold = untold;
    }
  }

  /** The group is told after so many rows, or so much time; the other of the two is 0. */
  record Options(long everyRows, long everyMs, boolean early, long latenessMs, boolean dropLate)
      implements OperatorOptions {
    @Override
    public Iterator<byte[]> gathered(
        Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
      return new GatheredPanes(operator, watermark, Windowing.global(), rows);
    }
  }

  private GlobalWindow(Operator operator, Options options) {
    super(operator);
    this.everyRows = options.everyRows;
    this.every = OperatorOptions.micros(options.everyMs);
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<Group> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Group group, ByteSink out) {
        out.putLong(group.untold).put(group.told == null ? 0 : 1);
        operator.aggregates.write(group.values, out);
        if (group.told != null) operator.aggregates.write(group.told, out);
      }

      @Override
      public Group read(ByteBuffer in) {
        long untold = in.getLong();
        boolean told = in.get() != 0;
        Accumulator values = operator.aggregates.read(in);
        return new Group(values, told ? operator.aggregates.read(in) : null, untold);
      }
    };
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    result = new ResultRow(operator);
    if (store.index == null) {
      LinkedHashSet<Key> untold = new LinkedHashSet<>();
      if (every > 0)
        store.each(
            ALL,
            (key, group) -> {
              if (group.untold > 0) untold.add(key);
            });
      store.index = untold;
    }
    waiting = (LinkedHashSet<Key>) store.index;
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    Group group = store.get(ALL, key);
    if (group == null) group = new Group(operator.aggregates.empty(), null, 0);
    operator.aggregates.add(group.values, row, at);
    taken(key, group, 1);
  }

  @Override
  void take(Key key, long pane, int rows, Accumulator gathered) {
    Group group = store.get(ALL, key);
    if (group == null) group = new Group(operator.aggregates.empty(), null, 0);
    operator.aggregates.merge(group.values, gathered);
    taken(key, group, rows);
  }

  private void taken(Key key, Group group, int rows) {
    group.untold += rows;
    waiting.add(key);
    store.put(ALL, key, group);
  }

  @Override
  boolean settle() {
    if (every > 0) return false;
    for (Key key : waiting) {
      Group group = store.get(ALL, key);
      if (group.untold >= everyRows) tell(key, group);
    }
    waiting.clear();
    return false;
  }

  private void tell(Key key, Group group) {
    replace(group.told == null ? null : values(key, group.told), values(key, group.values));
    group.told = operator.aggregates.empty();
    operator.aggregates.merge(group.told, group.values);
    group.untold %= Math.max(1, everyRows);
    store.put(ALL, key, group);
  }

  private Object[] values(Key key, Accumulator of) {
    return result.of(key, 0, Long.MAX_VALUE, of);
  }

  @Override
  void pass() {
    if (now < due()) return;
    for (Key key : waiting) tell(key, store.get(ALL, key));
    waiting.clear();
    store.marks[PASSED] = now;
  }

  @Override
  long due() {
    if (every == 0 || waiting.isEmpty()) return Long.MAX_VALUE;
    long passed = store.marks[PASSED];
    return passed == Long.MIN_VALUE
        ? Long.MIN_VALUE + 1
        : (Math.floorDiv(passed, every) + 1) * every;
  }
}

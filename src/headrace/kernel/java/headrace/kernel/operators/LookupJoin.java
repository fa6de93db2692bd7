package headrace.kernel.operators;

import headrace.kernel.operators.Events.Event;
import headrace.kernel.state.Bag;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows of a stream with those of a table; operators/lookup_join.py says what it means.
 *
 * <p>What the messages of one call say of the table is done before its rows of the stream are
 * answered, so the answers of a batch do not depend on the order in which its messages come. In
 * live mode a row of the stream may come between two messages about one change of the table, such
 * as the row that goes and the one that takes its place: what an operator gave at once is done at
 * once, when all of it is there. What a function filters out, or what goes to another shard, never
 * comes; so after {@link #PATIENCE}, or when the sender says something else, what is there is done.
 *
 * <p>State: the rows of the table by key, and by key and slices of time what ends then: rows of the
 * stream, that wait for a partner until then, or may be corrected; and of keys that a version of
 * the table is to be forgotten.
 */
final class LookupJoin extends ShardProcessor<LookupJoin.Held> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("lookup_join", 3, Options.class, LookupJoin::new);
  private static final int PASSED = OWN_MARKS;
  private static final long TABLE = Long.MIN_VALUE;
  private static final long PATIENCE = 1_000_000_000L;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final Sides sides;
  private final int sign;
  private final long retention;
  private final boolean correct;

  /** How long a row of the stream is of use. */
  private final long kept;

  /** Where the time that is asked for is in the stream's rows, or -1. */
  private final int asOf;

  /** Where the bounds of a version's validity are in the table's rows, or -1. */
  private final int from;

  private final int to;
  private final long size;
  private transient PriorityQueue<Alarm> alarms;
  private transient ArrayDeque<Arrived> arrived;
  private transient LinkedHashMap<Key, Bag> before;

  /** Whether rows of the stream are being answered. */
  private transient boolean answering;

  /** By sender what is not there in whole. */
  private transient HashMap<Integer, Bundle> bundles;

  /** What is kept of a key: rows of the table, or in a slice of time rows of the stream, if any. */
  static final class Held {
    Bag rows = new Bag();
    Events events = new Events();
  }

  private record Arrived(Key key, Event event) {}

  /** A row of the table that comes (1) or goes (-1). */
  private record Change(Key key, byte[] row, int count) {}

  /** Changes that an operator gave at once. */
  private static final class Bundle {
    final long number;
    final long since = System.nanoTime();
    final ArrayList<Change> changes = new ArrayList<>(2);

    Bundle(long number) {
      this.number = number;
    }
  }

  private record Alarm(long end, Key key) implements Comparable<Alarm> {
    @Override
    public int compareTo(Alarm other) {
      return Long.compare(end, other.end);
    }
  }

  /**
   * @param waitMs how long a row waits for a partner; 0 when it does not
   * @param retentionMs how long after its end a version of the table may be asked for
   * @param sliceMs how long the slices of time are in which rows are kept
   * @param valid where the bounds of a version's validity are in the table's rows, or -1
   * @param asOfPlace where the time that is asked for is in the stream's rows, or -1
   * @param correct whether answers are corrected when the table changes
   * @param timeless that rows of the table have no time
   */
  record Options(
      String side,
      String sign,
      List<String> sides,
      List<List<Integer>> places,
      List<Boolean> whole,
      long waitMs,
      long retentionMs,
      long sliceMs,
      List<Integer> valid,
      int asOfPlace,
      boolean correct,
      boolean timeless)
      implements Sides.Options {
    /** Rows that wait for the table are held back; others come out at once. */
    @Override
    public boolean holdsBack() {
      return waitMs > 0;
    }
  }

  private LookupJoin(Operator operator, Options options) {
    super(operator);
    sides = new Sides(operator, options);
    sign = operator.input.fieldIndex(options.sign);
    retention = OperatorOptions.micros(options.retentionMs);
    correct = options.correct;
    asOf = options.asOfPlace;
    from = options.valid.get(0);
    to = options.valid.get(1);
    kept = correct ? retention : OperatorOptions.micros(options.waitMs);
    size = OperatorOptions.micros(options.sliceMs);
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<Held> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Held held, ByteSink out) {
        held.rows.write(out);
        held.events.write(out);
      }

      @Override
      public Held read(ByteBuffer in) {
        Held held = new Held();
        held.rows = Bag.read(in);
        held.events = named(Events.read(in));
        return held;
      }

      @Override
      public int rows(Held held) {
        return held.rows.entries() + held.events.size();
      }

      @Override
      public boolean isBrief(Held held) {
        return held.rows.isBrief() || held.events.isBrief();
      }

      @Override
      public void writeChange(Held held, ByteSink out) {
        held.rows.writeChange(out);
        held.events.writeChange(out);
      }

      @Override
      public void readChange(Held held, ByteBuffer in) {
        held.rows = held.rows.changed(in);
        held.events.readChange(in);
        named(held.events);
      }
    };
  }

  private Events named(Events events) {
    return operator.origins ? events.named(operator.late.operator()) : events;
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    arrived = new ArrayDeque<>();
    before = new LinkedHashMap<>();
    bundles = new HashMap<>();
    if (store.index == null) {
      PriorityQueue<Alarm> made = new PriorityQueue<>();
      for (long slice : correct ? List.<Long>of() : slices()) {
        store.each(
            slice,
            (key, held) -> held.events.forEach(event -> made.add(new Alarm(event.at + kept, key))));
      }
      store.index = made;
    }
    alarms = (PriorityQueue<Alarm>) store.index;
  }

  private List<Long> slices() {
    return store.groups(TABLE + 1, Long.MAX_VALUE);
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    byte[] bytes = sides.packed(row);
    if (sides.of(row) == Sides.LEFT) {
      arrived.add(new Arrived(key, new Event(at, bytes, origin)));
      return;
    }
    Change change = new Change(key, bytes, MINUS.equals(row.getUTF8String(sign)) ? -1 : 1);
    if (operator.live) gather(change);
    else change(change);
  }

  private void gather(Change change) {
    Bundle known = bundles.get(sender);
    if (known != null && known.number != bundle) finish(bundles.remove(sender));
    if (bundled == 1 || correct) { // what is told too early is corrected
      change(change);
      return;
    }
    Bundle mine = bundles.computeIfAbsent(sender, s -> new Bundle(bundle));
    mine.changes.add(change);
    if (mine.changes.size() == bundled) finish(bundles.remove(sender));
  }

  private void finish(Bundle bundle) {
    bundle.changes.forEach(this::change);
  }

  @Override
  void finish() {
    bundles.values().forEach(this::finish);
    bundles.clear();
    hearOfChanges();
  }

  private void hearOfChanges() {
    before.forEach(this::again);
    before.clear();
  }

  private void change(Change change) {
    Key key = change.key;
    if (sides.hasNull(key)) return;
    Held table = store.get(TABLE, key);
    if (table == null) table = new Held();
    if (kept > 0 && !before.containsKey(key)) before.put(key, table.rows.copy());
    table.rows.add(change.row, change.count);
    if (to >= 0) {
      table.rows.removeIf(this::isForgotten);
      remind(key, change.row);
    }
    if (table.rows.isEmpty()) store.remove(TABLE, key);
    else store.put(TABLE, key, table);
  }

  /**
   * Sees to it that a version that has an end is forgotten, also when nothing more is said of its
   * key.
   */
  private void remind(Key key, byte[] version) {
    UnsafeRow row = sides.read(Sides.RIGHT, version);
    if (row.isNullAt(to)) return;
    long slice = slice(row.getLong(to) + retention);
    if (slice + size > clock() && store.get(slice, key) == null) store.put(slice, key, new Held());
  }

  private void forget(Key key) {
    Held table = store.get(TABLE, key);
    if (table == null || !table.rows.removeIf(this::isForgotten)) return;
    if (table.rows.isEmpty()) store.remove(TABLE, key);
    else store.put(TABLE, key, table);
  }

  /** Whether a version has been over for so long that nobody may ask for it. */
  private boolean isForgotten(byte[] version) {
    UnsafeRow row = sides.read(Sides.RIGHT, version);
    return !row.isNullAt(to) && row.getLong(to) + retention < clock();
  }

  private long clock() {
    return Math.max(now, store.marks[PASSED]);
  }

  @Override
  boolean settle() {
    if (!answering) {
      finishOld();
      hearOfChanges();
    }
    Arrived one = arrived.poll();
    if (one != null) answer(one.key, one.event);
    answering = one != null;
    return answering;
  }

  /** Does what was waited for long enough. */
  private void finishOld() {
    if (bundles.isEmpty()) return;
    long now = System.nanoTime();
    bundles
        .values()
        .removeIf(
            one -> {
              if (now - one.since <= PATIENCE) return false;
              finish(one);
              return true;
            });
  }

  private void answer(Key key, Event event) {
    boolean lone = sides.hasNull(key);
    Held table = lone ? null : store.get(TABLE, key);
    boolean found = table != null && tell(event, table.rows, 1);
    boolean keep = kept > 0 && !lone && event.at != Message.NO_TIME && event.at + kept >= clock();
    if (!found && (correct || !keep)) tellAlone(event, 1);
    if (!keep || (found && !correct)) return;
    long end = event.at + kept;
    Held held = store.get(slice(end), key);
    if (held == null) held = new Held();
    held.events.add(event);
    store.put(slice(end), key, held);
    if (!correct) alarms.add(new Alarm(end, key));
  }

  private long slice(long end) {
    return Math.floorDiv(end, size) * size;
  }

  /** Rows of the stream again, after the table's rows of their key have changed. */
  private void again(Key key, Bag old) {
    Held table = store.get(TABLE, key);
    Bag rows = table == null ? new Bag() : table.rows;
    long clock = clock();
    for (long slice : slices()) {
      Held held = store.get(slice, key);
      if (held == null) continue;
      if (correct) held.events.forEach(event -> correct(event, old, rows, clock));
      else if (held.events.removeIf(event -> tell(event, rows, 1))) put(slice, key, held);
    }
  }

  private void put(long slice, Key key, Held held) {
    if (held.events.isEmpty() && to < 0) store.remove(slice, key);
    else store.put(slice, key, held);
  }

  /**
   * Of a row that is too old, or asks for a time too long ago, the versions that it was told of may
   * be forgotten.
   */
  private void correct(Event event, Bag old, Bag rows, long clock) {
    if (Math.min(event.at, time(event)) + retention < clock || same(event, old, rows)) return;
    if (!tell(event, old, -1)) tellAlone(event, -1);
    if (!tell(event, rows, 1)) tellAlone(event, 1);
  }

  private boolean same(Event event, Bag old, Bag rows) {
    Bag difference = new Bag();
    long time = time(event);
    old.each(
        (row, count) -> {
          if (isValid(row, time)) difference.add(row, count);
        });
    rows.each(
        (row, count) -> {
          if (isValid(row, time)) difference.add(row, -count);
        });
    return difference.isEmpty();
  }

  /** The time that a row asks for. */
  private long time(Event event) {
    if (asOf < 0) return Message.NO_TIME;
    UnsafeRow row = sides.read(Sides.LEFT, event.row);
    return row.isNullAt(asOf) ? Message.NO_TIME : row.getLong(asOf);
  }

  private boolean isValid(byte[] version, long at) {
    if (to < 0) return true;
    if (at == Message.NO_TIME) return false;
    UnsafeRow row = sides.read(Sides.RIGHT, version);
    return (row.isNullAt(from) || row.getLong(from) <= at)
        && (row.isNullAt(to) || at < row.getLong(to));
  }

  /** Gives a row with its partners, or takes that back; whether there were any. */
  private boolean tell(Event event, Bag rows, int sign) {
    boolean[] found = {false};
    long time = time(event);
    rows.each(
        (row, count) -> {
          if (count <= 0 || !isValid(row, time)) return;
          found[0] = true;
          for (int i = 0; i < count; i++)
            give(sides.result(Sides.LEFT, event.row, row), event, sign);
        });
    return found[0];
  }

  private void tellAlone(Event event, int sign) {
    if (sides.whole[Sides.LEFT]) give(sides.result(Sides.LEFT, event.row, null), event, sign);
  }

  private void give(Object[] values, Event event, int sign) {
    if (correct) emit(sign > 0 ? ResultRow.plus(values) : ResultRow.minus(values));
    else emit(values, event.origin);
  }

  @Override
  void pass() {
    long clock = clock();
    if (clock < due()) return;
    finish();
    while (!alarms.isEmpty() && alarms.peek().end < clock) {
      Alarm alarm = alarms.poll();
      Held held = store.get(slice(alarm.end), alarm.key);
      if (held == null) continue;
      held.events.forEach(
          event -> {
            if (event.at + kept == alarm.end) tellAlone(event, 1);
          });
      if (held.events.removeIf(event -> event.at + kept == alarm.end))
        put(slice(alarm.end), alarm.key, held);
    }
    store.marks[PASSED] = clock;
    for (long slice : slices()) {
      if (slice + size - 1 >= clock) break;
      if (to >= 0) store.each(slice, (key, held) -> forget(key));
      store.drop(slice);
    }
  }

  @Override
  long due() {
    List<Long> slices = slices();
    long drop = slices.isEmpty() ? Long.MAX_VALUE : slices.get(0) + size;
    return alarms.isEmpty() ? drop : Math.min(drop, alarms.peek().end + 1);
  }
}

package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.run.Origin;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Every row with aggregates over those of its key in the time before it; operators/sliding.py says
 * what they mean.
 *
 * <p>State: the rows themselves, by slices of time and key, each slice with its own aggregates, so
 * that a row's are put together of the slices inside and the rows at the edges. Where many rows of
 * a key are answered at once, and rows can be taken out of the aggregates again, one sum goes along
 * with them instead. A slice is dropped when no row that may still come looks back to it.
 */
final class Sliding extends ShardProcessor<Sliding.Slice> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("sliding", 3, Options.class, Sliding::new);
  private static final int PASSED = OWN_MARKS;
  private static final int SLICES = 8;
  private static final int MANY = 4;

  private final long within;
  private final long size;
  private transient LinkedHashMap<Key, IdentityHashMap<Event, Object[]>> touched;
  private transient PriorityQueue<Alarm> alarms;
  private transient UnsafeRow reading;

  /** A row that was taken in, and whether it was given. */
  static final class Event {
    final long at;
    final byte[] row;
    boolean given;

    /** Where it came from; not in the state. */
    String origin;

    Event(long at, byte[] row, boolean given) {
      this.at = at;
      this.row = row;
      this.given = given;
    }
  }

  /** The events of a key in a slice of time, in order. */
  static final class Slice {
    final ArrayList<Event> events = new ArrayList<>(2);
    Accumulator all;
  }

  private record Alarm(long at, Key key) implements Comparable<Alarm> {
    @Override
    public int compareTo(Alarm other) {
      return Long.compare(at, other.at);
    }
  }

  /** Each row looks back for so long. */
  record Options(long withinMs, boolean early, long latenessMs, boolean dropLate)
      implements OperatorOptions {}

  private Sliding(Operator operator, Options options) {
    super(operator);
    this.within = OperatorOptions.micros(options.withinMs);
    this.size = Math.max(1, within / SLICES);
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<Slice> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Slice slice, ByteSink out) {
        out.putInt(slice.events.size());
        for (Event event : slice.events)
          out.putLong(event.at).put(event.given ? 1 : 0).putSized(event.row);
      }

      @Override
      public Slice read(ByteBuffer in) {
        Slice slice = new Slice();
        for (int i = 0, count = in.getInt(); i < count; i++) {
          long at = in.getLong();
          boolean given = in.get() != 0;
          slice.events.add(new Event(at, Value.sized(in), given));
        }
        return slice;
      }
    };
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    touched = new LinkedHashMap<>();
    reading = new UnsafeRow(operator.rows.size());
    if (store.index == null) {
      PriorityQueue<Alarm> made = new PriorityQueue<>();
      if (!operator.early) {
        for (long slice : store.groups()) {
          store.each(
              slice,
              (key, events) -> {
                for (Event event : events.events)
                  if (!event.given) made.add(new Alarm(event.at + 1, key));
              });
        }
      }
      store.index = made;
    }
    alarms = (PriorityQueue<Alarm>) store.index;
  }

  private long clock() {
    return Math.max(now, store.marks[PASSED]);
  }

  private long slice(long at) {
    return Math.floorDiv(at, size) * size;
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    if (at + operator.lateness < Math.max(horizon, store.marks[PASSED])) {
      late(at);
      return;
    }
    IdentityHashMap<Event, Object[]> changing =
        operator.changes || operator.early
            ? touched.computeIfAbsent(key, k -> new IdentityHashMap<>())
            : null;
    if (operator.changes) {
      each(
          key,
          at,
          at + within - 1,
          event -> {
            if (event.given && !changing.containsKey(event))
              changing.put(event, values(key, event));
          });
    }
    Event event = new Event(at, row.getBytes(), false);
    event.origin = origin;
    Slice slice = store.get(slice(at), key);
    if (slice == null) slice = new Slice();
    else all(slice);
    int place = slice.events.size();
    while (place > 0 && slice.events.get(place - 1).at > at) place--;
    slice.events.add(place, event);
    if (slice.all == null) slice.all = operator.aggregates.empty();
    operator.aggregates.add(slice.all, read(event), at);
    store.put(slice(at), key, slice);
    if (operator.early) changing.put(event, null);
    else alarms.add(new Alarm(at + 1, key));
  }

  private UnsafeRow read(Event event) {
    reading.pointTo(event.row, event.row.length);
    return reading;
  }

  private Accumulator all(Slice slice) {
    if (slice.all == null) {
      slice.all = operator.aggregates.empty();
      for (Event event : slice.events) operator.aggregates.add(slice.all, read(event), event.at);
    }
    return slice.all;
  }

  /** The events of a key from a time to a time, both included. */
  private void each(Key key, long from, long to, java.util.function.Consumer<Event> give) {
    for (long group : store.groups(slice(from), to + 1)) {
      Slice slice = store.get(group, key);
      if (slice == null) continue;
      for (Event event : slice.events) if (event.at >= from && event.at <= to) give.accept(event);
    }
  }

  private Object[] values(Key key, Event event) {
    Accumulator sum = operator.aggregates.empty();
    long from = event.at - within + 1;
    for (long group : store.groups(slice(from), event.at + 1)) {
      Slice slice = store.get(group, key);
      if (slice == null) continue;
      if (group >= from && slice.events.get(slice.events.size() - 1).at <= event.at) {
        operator.aggregates.merge(sum, all(slice));
      } else {
        for (Event one : slice.events) {
          if (one.at >= from && one.at <= event.at) operator.aggregates.add(sum, read(one), one.at);
        }
      }
    }
    return values(event, sum);
  }

  private Object[] values(Event event, Accumulator sum) {
    Object[] values = new Object[operator.output.size()];
    UnsafeRow row = read(event);
    int at = 0;
    for (; at < operator.input.size(); at++) {
      values[at] = row.isNullAt(at) ? null : row.get(at, operator.input.fields()[at].dataType());
    }
    operator.aggregates.results(sum, values, at);
    return operator.changes ? ResultRow.plus(values) : values;
  }

  @Override
  boolean settle() {
    Map.Entry<Key, IdentityHashMap<Event, Object[]>> entry = poll(touched);
    if (entry == null) return false;
    ArrayList<Map.Entry<Event, Object[]>> changing = new ArrayList<>(entry.getValue().entrySet());
    changing.sort((a, b) -> Long.compare(a.getKey().at, b.getKey().at));
    for (Map.Entry<Event, Object[]> change : changing) {
      Event event = change.getKey();
      Object[] before = change.getValue(), after = values(entry.getKey(), event);
      if (before != null) {
        int aggregates = operator.input.size();
        if (Arrays.deepEquals(
            Arrays.copyOfRange(before, aggregates, before.length),
            Arrays.copyOfRange(after, aggregates, after.length))) continue;
        emit(ResultRow.minus(before));
      }
      give(entry.getKey(), event, after);
    }
    return true;
  }

  private void give(Key key, Event event, Object[] values) {
    if (event.given) {
      emit(values);
      return;
    }
    emit(values, operator.origins && !operator.early ? content(key, event) : event.origin);
    event.given = true;
    store.put(slice(event.at), key, store.get(slice(event.at), key));
  }

  /**
   * The origin of a row that is held back, maybe for batches: by what it is, its time, and, of
   * several that are the same, a number. It does not matter which of these has which.
   */
  private String content(Key key, Event event) {
    ArrayList<Event> near = store.get(slice(event.at), key).events;
    int first = 0, end = near.size(), same = 0;
    while (first < end) {
      int middle = (first + end) >>> 1;
      if (near.get(middle).at < event.at) first = middle + 1;
      else end = middle;
    }
    for (int i = first; near.get(i) != event; i++)
      if (Arrays.equals(near.get(i).row, event.row)) same++;
    return Origin.content(operator.late.operator(), event.row, event.at) + "." + same;
  }

  /**
   * Gives events of a key, which are in order, with one sum that takes rows in and out as time goes
   * on.
   */
  private void giveAlong(Key key, ArrayList<Event> due) {
    ArrayList<Event> near = new ArrayList<>();
    each(key, due.get(0).at - within + 1, due.get(due.size() - 1).at, near::add);
    Accumulator sum = operator.aggregates.empty();
    int in = 0, out = 0;
    for (Event event : due) {
      long from = event.at - within + 1;
      for (; out < in && near.get(out).at < from; out++)
        operator.aggregates.remove(sum, read(near.get(out)));
      for (; in < near.size() && near.get(in).at <= event.at; in++) {
        Event next = near.get(in);
        if (next.at >= from) operator.aggregates.add(sum, read(next), next.at);
        else out = in + 1;
      }
      give(key, event, values(event, sum));
    }
  }

  @Override
  void pass() {
    long clock = clock();
    if (clock < due()) return;
    LinkedHashSet<Key> keys = new LinkedHashSet<>();
    long from = clock;
    while (!alarms.isEmpty() && alarms.peek().at <= clock) {
      Alarm alarm = alarms.poll();
      from = Math.min(from, alarm.at - 1);
      keys.add(alarm.key);
    }
    ArrayList<Event> due = new ArrayList<>();
    for (Key key : keys) {
      due.clear();
      each(
          key,
          from,
          clock - 1,
          event -> {
            if (!event.given) due.add(event);
          });
      if (due.size() >= MANY && operator.aggregates.takesOut()) giveAlong(key, due);
      else for (Event event : due) give(key, event, values(key, event));
    }
    store.marks[PASSED] = clock;
    for (long slice : store.groups()) {
      if (slice + size - 1 + within + operator.lateness > clock) break;
      store.drop(slice);
    }
  }

  @Override
  long due() {
    Long first = store.firstGroup();
    long drop = first == null ? Long.MAX_VALUE : first + size - 1 + within + operator.lateness;
    return alarms.isEmpty() ? drop : Math.min(drop, alarms.peek().at);
  }
}

package headrace.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The join of two streams by key and by how far apart their times are; operators/interval_join.py says what it means.
 *
 * <p>A row of the left side at t has partners of the right side from t + lower to t + upper. So it is of use until the
 * watermark has passed t + upper, and one of the right side at u until it has passed u - lower. With that end a row is kept:
 * then the partners of a row at t, of either side, are among those whose end is from t to t + upper - lower.
 *
 * <p>State: rows by slices of their ends and by key, dropped slice by slice; a row says whether it has had a partner, where its
 * side is kept whole.
 */
final class IntervalJoin extends ShardProcessor<IntervalJoin.Near> {
  private static final long serialVersionUID = 1L;
  private static final int PASSED = OWN_MARKS;

  private final Sides sides;
  private final long lower;
  private final long upper;
  private final long size;
  private transient PriorityQueue<Alarm> alarms;

  /** A row that was taken in, where it came from, and whether there is nothing more to say of it alone. */
  static final class Event {
    final long at;
    final byte[] row;
    final String origin;
    boolean told;

    Event(long at, byte[] row, String origin, boolean told) {
      this.at = at;
      this.row = row;
      this.origin = origin;
      this.told = told;
    }
  }

  /** The rows of a key whose ends are in the same slice, by side. */
  static final class Near {
    final List<List<Event>> events = List.of(new ArrayList<>(2), new ArrayList<>(2));
  }

  private record Alarm(long end, int side, Key key) implements Comparable<Alarm> {
    @Override
    public int compareTo(Alarm other) {
      return Long.compare(end, other.end);
    }
  }

  IntervalJoin(Operator operator) {
    super(operator);
    sides = new Sides(operator);
    lower = operator.spec().get("lower_ms").asLong() * 1000;
    upper = operator.spec().get("upper_ms").asLong() * 1000;
    size = operator.spec().get("slice_ms").asLong() * 1000;
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<Near> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Near near, ByteSink out) {
        for (List<Event> events : near.events) {
          out.putInt(events.size());
          for (Event event : events) {
            out.putLong(event.at).put(event.told ? 1 : 0).putSized(event.row);
            out.putSized(event.origin == null ? new byte[0] : event.origin.getBytes(StandardCharsets.UTF_8));
          }
        }
      }

      @Override
      public Near read(ByteBuffer in) {
        Near near = new Near();
        for (List<Event> events : near.events) {
          for (int i = 0, count = in.getInt(); i < count; i++) {
            long at = in.getLong();
            boolean told = in.get() != 0;
            byte[] row = Value.sized(in), origin = Value.sized(in);
            String text = origin.length == 0 ? null : new String(origin, StandardCharsets.UTF_8);
            events.add(new Event(at, row, text, told));
          }
        }
        return near;
      }
    };
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    if (store.index == null) {
      PriorityQueue<Alarm> made = new PriorityQueue<>();
      for (long slice : store.groups()) {
        store.each(slice, (key, near) -> {
          for (int side = 0; side < 2; side++) {
            if (!sides.whole[side]) continue;
            for (Event event : near.events.get(side)) if (!event.told) made.add(new Alarm(end(side, event.at), side, key));
          }
        });
      }
      store.index = made;
    }
    alarms = (PriorityQueue<Alarm>) store.index;
  }

  private long end(int side, long at) {
    return side == Sides.LEFT ? at + upper : at - lower;
  }

  private long slice(long end) {
    return Math.floorDiv(end, size) * size;
  }

  @Override
  void late(Long at) {
    UnsafeRow message = message();
    int side = sides.of(message);
    late(sides.read(side, sides.packed(message)), sides.schemas[side], at);
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    if (at + operator.lateness < Math.max(horizon, store.marks[PASSED])) {
      late(at);
      return;
    }
    int mine = sides.of(row), other = 1 - mine;
    byte[] bytes = sides.packed(row);
    if (sides.hasNull(key)) { // it never has a partner
      if (sides.whole[mine]) emit(sides.result(mine, bytes, null), origin);
      return;
    }
    Event event = new Event(at, bytes, origin, false);
    for (long slice : store.groups(slice(at), at + upper - lower + 1)) {
      Near near = store.get(slice, key);
      if (near == null) continue;
      boolean changed = false;
      for (Event partner : near.events.get(other)) {
        long apart = mine == Sides.LEFT ? partner.at - at : at - partner.at;
        if (apart < lower || apart > upper) continue;
        emit(sides.result(mine, bytes, partner.row), both(mine, event, partner));
        event.told = true;
        changed |= !partner.told;
        partner.told = true;
      }
      if (changed && sides.whole[other]) store.put(slice, key, near);
    }
    long end = end(mine, at);
    Near near = store.get(slice(end), key);
    if (near == null) near = new Near();
    near.events.get(mine).add(event);
    store.put(slice(end), key, near);
    if (sides.whole[mine] && !event.told) alarms.add(new Alarm(end, mine, key));
  }

  /** An origin that is the same whichever of the two came first. */
  private String both(int mine, Event event, Event partner) {
    if (event.origin == null || partner.origin == null) return null;
    return mine == Sides.LEFT ? event.origin + "+" + partner.origin : partner.origin + "+" + event.origin;
  }

  @Override
  void pass() {
    long clock = Math.max(now, store.marks[PASSED]);
    if (clock < due()) return;
    while (!alarms.isEmpty() && alarms.peek().end + operator.lateness < clock) tellAlone(alarms.poll());
    store.marks[PASSED] = clock;
    for (long slice : store.groups()) {
      if (slice + size - 1 + operator.lateness >= clock) break;
      store.drop(slice);
    }
  }

  private void tellAlone(Alarm alarm) {
    Near near = store.get(slice(alarm.end), alarm.key);
    if (near == null) return;
    boolean changed = false;
    for (Event event : near.events.get(alarm.side)) {
      if (event.told || end(alarm.side, event.at) != alarm.end) continue;
      emit(sides.result(alarm.side, event.row, null), event.origin);
      event.told = changed = true;
    }
    if (changed) store.put(slice(alarm.end), alarm.key, near);
  }

  @Override
  long due() {
    Long first = store.firstGroup();
    long drop = first == null ? Long.MAX_VALUE : first + size + operator.lateness;
    return alarms.isEmpty() ? drop : Math.min(drop, alarms.peek().end + operator.lateness + 1);
  }
}

package headrace.kernel.operators;

import headrace.kernel.operators.Events.Event;
import headrace.kernel.run.Origin;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The join of two streams by key and by how far apart their times are; operators/interval_join.py
 * says what it means.
 *
 * <p>A row of the left side at t has partners of the right side from t + lower to t + upper. So it
 * is of use until the watermark has passed t + upper, and one of the right side at u until it has
 * passed u - lower. With that end a row is kept: then the partners of a row at t, of either side,
 * are among those whose end is from t to t + upper - lower.
 *
 * <p>State: rows by slices of their ends and by key, dropped slice by slice; a row says whether it
 * has had a partner, where its side is kept whole.
 */
final class IntervalJoin extends ShardProcessor<IntervalJoin.Near> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("interval_join", 3, Options.class, IntervalJoin::new);
  private static final int PASSED = OWN_MARKS;

  private final Sides sides;
  private final long lower;
  private final long upper;
  private final long size;
  private transient PriorityQueue<Alarm> alarms;

  /** The rows of a key whose ends are in the same slice, by side. */
  static final class Near {
    final Events[] events = {new Events(), new Events()};
  }

  private record Alarm(long end, int side, Key key) implements Comparable<Alarm> {
    @Override
    public int compareTo(Alarm other) {
      return Long.compare(end, other.end);
    }
  }

  /** A partner is from `lowerMs` to `upperMs` after the left row; rows are kept in slices. */
  record Options(
      String side,
      String sign,
      List<String> sides,
      List<List<Integer>> places,
      List<Boolean> whole,
      long lowerMs,
      long upperMs,
      long sliceMs,
      long latenessMs,
      boolean dropLate)
      implements Sides.Options {}

  private IntervalJoin(Operator operator, Options options) {
    super(operator);
    sides = new Sides(operator, options);
    lower = OperatorOptions.micros(options.lowerMs);
    upper = OperatorOptions.micros(options.upperMs);
    size = OperatorOptions.micros(options.sliceMs);
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
        for (Events events : near.events) events.write(out);
      }

      @Override
      public Near read(ByteBuffer in) {
        Near near = new Near();
        for (int side = 0; side < 2; side++) near.events[side] = Events.read(in);
        return named(near);
      }

      @Override
      public int rows(Near near) {
        return near.events[Sides.LEFT].size() + near.events[Sides.RIGHT].size();
      }

      @Override
      public boolean isBrief(Near near) {
        return near.events[Sides.LEFT].isBrief() || near.events[Sides.RIGHT].isBrief();
      }

      @Override
      public void writeChange(Near near, ByteSink out) {
        for (Events events : near.events) events.writeChange(out);
      }

      @Override
      public void readChange(Near near, ByteBuffer in) {
        for (Events events : near.events) events.readChange(in);
        named(near);
      }
    };
  }

  private Near named(Near near) {
    for (int side = 0; operator.origins && side < 2; side++)
      near.events[side].named(operator.late.operator() + side);
    return near;
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    if (store.index == null) {
      PriorityQueue<Alarm> made = new PriorityQueue<>();
      for (long slice :
          sides.whole[Sides.LEFT] || sides.whole[Sides.RIGHT] ? store.groups() : List.<Long>of()) {
        store.each(
            slice,
            (key, near) -> {
              for (int side = 0; side < 2; side++) {
                if (!sides.whole[side]) continue;
                int of = side;
                near.events[side].forEach(
                    event -> {
                      if (!event.told) made.add(new Alarm(end(of, event.at), of, key));
                    });
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
    Event event = new Event(at, bytes, origin);
    for (long slice : store.groups(slice(at), at + upper - lower + 1)) {
      Near near = store.get(slice, key);
      if (near == null) continue;
      boolean changed = false;
      Events partners = near.events[other];
      for (int i = 0; i < partners.size(); i++) {
        Event partner = partners.get(i);
        long apart = mine == Sides.LEFT ? partner.at - at : at - partner.at;
        if (apart < lower || apart > upper) continue;
        emit(sides.result(mine, bytes, partner.row), both(mine, event, partner));
        event.told = true;
        if (!sides.whole[other] || partner.told) continue;
        partners.tell(i);
        changed = true;
      }
      if (changed) store.put(slice, key, near);
    }
    long end = end(mine, at);
    Near near = store.get(slice(end), key);
    if (near == null) near = new Near();
    near.events[mine].add(event);
    store.put(slice(end), key, near);
    if (sides.whole[mine] && !event.told) alarms.add(new Alarm(end, mine, key));
  }

  /** An origin that is the same whichever of the two came first. */
  private String both(int mine, Event event, Event partner) {
    if (event.origin == null || partner.origin == null) return null;
    String one = Origin.identity(event.origin), other = Origin.identity(partner.origin);
    return mine == Sides.LEFT ? one + "+" + other : other + "+" + one;
  }

  @Override
  void pass() {
    long clock = Math.max(now, store.marks[PASSED]);
    if (clock < due()) return;
    while (!alarms.isEmpty() && alarms.peek().end + operator.lateness < clock)
      tellAlone(alarms.poll());
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
    Events events = near.events[alarm.side];
    for (int i = 0; i < events.size(); i++) {
      Event event = events.get(i);
      if (event.told || end(alarm.side, event.at) != alarm.end) continue;
      emit(sides.result(alarm.side, event.row, null), event.origin);
      events.tell(i);
      changed = true;
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

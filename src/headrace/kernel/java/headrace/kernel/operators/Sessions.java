package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Aggregates over sessions; operators/window.py says what they mean.
 *
 * <p>State: the sessions of each key that can still change. A session is over when the clock has
 * passed its last event by more than the gap; it is kept for `lateness` more, in which a late event
 * may lengthen it or join it with another. The alarms say at which keys to look when; one may come
 * too early, and then the key gets another.
 */
final class Sessions extends ShardProcessor<ArrayList<Session>> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("session", 3, Options.class, Sessions::new);
  private static final int PASSED = OWN_MARKS;
  private static final long ALL = 0;

  private final long gap;

  /** Where the start of a session is in a result. */
  private final int start;

  private transient ResultRow result;
  private transient LinkedHashMap<Key, ArrayList<Object[]>> touched;
  private transient PriorityQueue<Alarm> alarms;

  private record Alarm(long at, Key key) implements Comparable<Alarm> {
    @Override
    public int compareTo(Alarm other) {
      return Long.compare(at, other.at);
    }
  }

  /** Sessions end when a key has been quiet for longer than the gap. */
  record Options(long gapMs, boolean early, long latenessMs, boolean dropLate)
      implements OperatorOptions {
    private long gap() {
      return OperatorOptions.micros(gapMs);
    }

    @Override
    public Iterator<byte[]> gathered(
        Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
      return new GatheredSessions(operator, watermark, gap(), rows);
    }
  }

  private Sessions(Operator operator, Options options) {
    super(operator);
    this.gap = options.gap();
    this.start = operator.key.size();
  }

  @Override
  long[] ownMarks() {
    return new long[] {Long.MIN_VALUE};
  }

  @Override
  ShardStore.Codec<ArrayList<Session>> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(ArrayList<Session> sessions, ByteSink out) {
        out.putInt(sessions.size());
        for (Session session : sessions) session.write(out, operator.aggregates);
      }

      @Override
      public ArrayList<Session> read(ByteBuffer in) {
        int count = in.getInt();
        ArrayList<Session> sessions = new ArrayList<>(count);
        for (int i = 0; i < count; i++) sessions.add(Session.read(in, operator.aggregates));
        return sessions;
      }
    };
  }

  @Override
  @SuppressWarnings("unchecked")
  void opened() {
    result = new ResultRow(operator);
    touched = new LinkedHashMap<>();
    if (store.index == null) {
      PriorityQueue<Alarm> made = new PriorityQueue<>();
      store.each(ALL, (key, sessions) -> made.add(new Alarm(next(sessions), key)));
      store.index = made;
    }
    alarms = (PriorityQueue<Alarm>) store.index;
  }

  private long clock() {
    return Math.max(now, store.marks[PASSED]);
  }

  /** When the watermark says that nothing more belongs to a session that ends with this event. */
  private long over(long last) {
    return last + gap + 1;
  }

  /**
   * When no row that is in time can belong to the session any more: until then it tells those that
   * are late.
   */
  private long forgotten(Session session) {
    return over(session.last) + operator.lateness + gap;
  }

  private boolean given(Session session) {
    return operator.early || over(session.last) <= store.marks[PASSED];
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    ArrayList<Session> sessions = store.get(ALL, key);
    long limit = Math.max(horizon, store.marks[PASSED]);
    boolean late = over(at) + operator.lateness <= limit;
    if (sessions != null) {
      for (Session session : sessions) {
        if (!session.meets(at, at, gap)) continue;
        late = over(session.last) + operator.lateness <= limit;
        if (late) break;
      }
    }
    if (late) {
      late(at);
      return;
    }
    Accumulator one = operator.aggregates.empty();
    operator.aggregates.add(one, row, at);
    take(key, sessions, new Session(at, at, one, 1));
  }

  @Override
  void take(Key key, Session session) {
    take(key, store.get(ALL, key), session);
  }

  private void take(Key key, ArrayList<Session> sessions, Session session) {
    if (sessions == null) sessions = new ArrayList<>(1);
    touch(key, sessions);
    long before = sessions.isEmpty() ? Long.MAX_VALUE : next(sessions);
    Session.join(sessions, session, gap, operator.aggregates);
    store.put(ALL, key, sessions);
    long after = next(sessions);
    if (after < before) alarms.add(new Alarm(after, key));
  }

  /** Notes the results of the key that were given, before they change. */
  private void touch(Key key, ArrayList<Session> sessions) {
    if (!operator.changes || touched.containsKey(key)) return;
    ArrayList<Object[]> results = new ArrayList<>();
    for (Session session : sessions) if (given(session)) results.add(values(key, session));
    touched.put(key, results);
  }

  private Object[] values(Key key, Session session) {
    return result.of(key, session.first, session.last + gap, session.values);
  }

  @Override
  boolean settle() {
    Map.Entry<Key, ArrayList<Object[]>> change = poll(touched);
    if (change == null) return false;
    Key key = change.getKey();
    ArrayList<Object[]> before = change.getValue(), after = new ArrayList<>();
    for (Session session : store.get(ALL, key)) if (given(session)) after.add(values(key, session));
    before.removeIf(old -> after.removeIf(one -> Arrays.deepEquals(one, old)));
    for (Object[] one : after) replace(withStart(before, one[start]), one);
    for (Object[] old : before) emit(ResultRow.minus(old));
    return true;
  }

  /** Takes the result with this start out of the list, if it is there. */
  private Object[] withStart(ArrayList<Object[]> results, Object wanted) {
    for (int i = 0; i < results.size(); i++)
      if (results.get(i)[start].equals(wanted)) return results.remove(i);
    return null;
  }

  /** When to look at the sessions of a key next: one is over, or one can go. */
  private long next(ArrayList<Session> sessions) {
    long next = Long.MAX_VALUE, passed = store.marks[PASSED];
    for (Session session : sessions) {
      long over = over(session.last);
      next = Math.min(next, operator.early || over <= passed ? forgotten(session) : over);
    }
    return next;
  }

  @Override
  void pass() {
    long clock = clock(), passed = store.marks[PASSED];
    if (clock < due()) return;
    LinkedHashSet<Key> kept = new LinkedHashSet<>();
    while (!alarms.isEmpty() && alarms.peek().at <= clock) {
      Key key = alarms.poll().key;
      ArrayList<Session> sessions = kept.contains(key) ? null : store.get(ALL, key);
      if (sessions == null) continue;
      boolean changed = false;
      for (int i = 0; i < sessions.size(); ) {
        Session session = sessions.get(i);
        long over = over(session.last);
        if (!operator.early && over <= clock && over > passed)
          emit(values(key, session), key, session.first);
        if (forgotten(session) <= clock) {
          sessions.remove(i);
          changed = true;
        } else {
          i++;
        }
      }
      if (sessions.isEmpty()) {
        store.remove(ALL, key);
      } else {
        if (changed) store.put(ALL, key, sessions);
        kept.add(key);
      }
    }
    store.marks[PASSED] = clock;
    for (Key key : kept) alarms.add(new Alarm(next(store.get(ALL, key)), key));
  }

  @Override
  long due() {
    return alarms.isEmpty() ? Long.MAX_VALUE : alarms.peek().at;
  }
}

package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.time.BatchWatermark;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Rows of a key that are near each other together, as sessions. */
final class GatheredSessions extends Gathered<Map.Entry<Key, ArrayList<Session>>> {
  private final long gap;
  private HashMap<Key, ArrayList<Session>> sessions = new HashMap<>();

  GatheredSessions(Operator operator, BatchWatermark watermark, long gap, Iterator<byte[]> rows) {
    super(operator, watermark, rows);
    this.gap = gap;
  }

  @Override
  int size() {
    return sessions.size();
  }

  @Override
  Iterator<Map.Entry<Key, ArrayList<Session>>> empty() {
    Iterator<Map.Entry<Key, ArrayList<Session>>> full = sessions.entrySet().iterator();
    sessions = new HashMap<>();
    return full;
  }

  @Override
  boolean isLate(long at) {
    // What is older may belong to a session that is over.
    return at + operator.lateness < watermark.micros();
  }

  @Override
  void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
    ArrayList<Session> known = sessions.computeIfAbsent(key, k -> new ArrayList<>(1));
    Session last = known.isEmpty() ? null : known.get(known.size() - 1);
    if (last != null && at >= last.first && at <= last.last + gap) {
      operator.aggregates.add(last.values, row, at);
      last.last = Math.max(last.last, at);
      last.rows++;
      return;
    }
    Accumulator one = operator.aggregates.empty();
    operator.aggregates.add(one, row, at);
    Session.join(known, new Session(at, at, one, 1), gap, operator.aggregates);
  }

  @Override
  byte[] message(Map.Entry<Key, ArrayList<Session>> of, long time) {
    ByteSink out = new ByteSink(64 + of.getKey().bytes.length);
    out.put(Message.SESSION)
        .putInt(operator.shard(of.getKey().hash))
        .putSized(of.getKey().bytes)
        .putInt(of.getValue().size());
    for (Session session : of.getValue()) session.write(out, operator.aggregates);
    return out.putLong(time).bytes();
  }
}

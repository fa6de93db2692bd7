package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.aggregates.Aggregates;
import headrace.kernel.state.ByteSink;
import java.nio.ByteBuffer;
import java.util.ArrayList;

/**
 * A session: the times of its first and last event, in microseconds, and what was gathered of its
 * events.
 */
final class Session {
  long first;
  long last;
  Accumulator values;
  int rows;

  Session(long first, long last, Accumulator values, int rows) {
    this.first = first;
    this.last = last;
    this.values = values;
    this.rows = rows;
  }

  /**
   * Whether an event at `gap` or less from the session's belongs to it; so two sessions may meet.
   */
  boolean meets(long from, long to, long gap) {
    return from <= last + gap && first <= to + gap;
  }

  /**
   * Adds the session to those of a key, which are in order and apart; those that it meets become
   * one with it.
   */
  static Session join(ArrayList<Session> all, Session session, long gap, Aggregates aggregates) {
    int at = all.size();
    while (at > 0 && all.get(at - 1).first > session.first) at--;
    while (at > 0 && all.get(at - 1).meets(session.first, session.last, gap)) at--;
    while (at < all.size() && all.get(at).meets(session.first, session.last, gap)) {
      Session other = all.remove(at);
      aggregates.merge(other.values, session.values);
      session =
          new Session(
              Math.min(other.first, session.first),
              Math.max(other.last, session.last),
              other.values,
              other.rows + session.rows);
    }
    all.add(at, session);
    return session;
  }

  void write(ByteSink out, Aggregates aggregates) {
    out.putLong(first).putLong(last).putInt(rows);
    aggregates.write(values, out);
  }

  static Session read(ByteBuffer in, Aggregates aggregates) {
    long first = in.getLong(), last = in.getLong();
    int rows = in.getInt();
    return new Session(first, last, aggregates.read(in), rows);
  }
}

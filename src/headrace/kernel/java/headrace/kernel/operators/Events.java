package headrace.kernel.operators;

import headrace.kernel.run.Origin;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** Rows of a stream that a join keeps, in the order in which they came. */
final class Events {
  private static final int MANY = 64;
  private static final int ALL = 0;
  private static final int SINCE = 1;

  /** A row, where it came from, and whether there is nothing more to say of it alone. */
  static final class Event {
    final long at;
    final byte[] row;
    String origin;
    boolean told;

    Event(long at, byte[] row, String origin) {
      this.at = at;
      this.row = row;
      this.origin = origin;
    }

    private void write(ByteSink out) {
      out.putLong(at).put(told ? 1 : 0).putSized(row);
      out.putSized(origin == null ? new byte[0] : origin.getBytes(StandardCharsets.UTF_8));
    }

    private static Event read(ByteBuffer in) {
      long at = in.getLong();
      boolean told = in.get() != 0;
      byte[] row = Value.sized(in), origin = Value.sized(in);
      Event event =
          new Event(
              at, row, origin.length == 0 ? null : new String(origin, StandardCharsets.UTF_8));
      event.told = told;
      return event;
    }
  }

  private final ArrayList<Event> all = new ArrayList<>(0);

  /**
   * Of many how many there were when they were last written, and which of them were told of since;
   * else 0.
   */
  private int written;

  private ArrayList<Integer> told;

  /**
   * Gives rows that were taken in where nobody told their {@link Origin} one of their own: by what
   * they are, their time, and, of several that are the same, a number. It does not matter which of
   * these has which.
   */
  Events named(String operator) {
    if (all.stream().allMatch(event -> event.origin != null)) return this;
    HashMap<String, Integer> same = new HashMap<>();
    for (Event event : all) {
      String content = Origin.content(operator, event.row, event.at);
      int number = same.merge(content, 1, Integer::sum) - 1;
      if (event.origin == null) event.origin = content + "." + number;
    }
    return this;
  }

  int size() {
    return all.size();
  }

  boolean isEmpty() {
    return all.isEmpty();
  }

  Event get(int place) {
    return all.get(place);
  }

  void forEach(Consumer<Event> to) {
    all.forEach(to);
  }

  void add(Event event) {
    all.add(event);
  }

  /** There is nothing more to say of this one alone. */
  void tell(int place) {
    all.get(place).told = true;
    if (place >= written) return;
    if (told == null) told = new ArrayList<>();
    told.add(place);
  }

  /** Forgets rows; whether there were any. */
  boolean removeIf(Predicate<Event> over) {
    if (!all.removeIf(over)) return false;
    written = 0;
    told = null;
    return true;
  }

  /** Whether what has changed is known and less than the whole. */
  boolean isBrief() {
    return written > 0
        && 2 * (all.size() - written + (told == null ? 0 : told.size())) < all.size();
  }

  void write(ByteSink out) {
    out.putInt(all.size());
    for (Event event : all) event.write(out);
    keep();
  }

  static Events read(ByteBuffer in) {
    Events events = new Events();
    events.append(in);
    events.keep();
    return events;
  }

  /** Writes what has changed since it was last written, or all where that is less. */
  void writeChange(ByteSink out) {
    if (!isBrief()) {
      write(out.put(ALL));
      return;
    }
    out.put(SINCE).putInt(told == null ? 0 : told.size());
    if (told != null) told.forEach(out::putInt);
    out.putInt(all.size() - written);
    for (Event event : all.subList(written, all.size())) event.write(out);
    keep();
  }

  void readChange(ByteBuffer in) {
    if (in.get() == ALL) all.clear();
    else for (int i = 0, count = in.getInt(); i < count; i++) all.get(in.getInt()).told = true;
    append(in);
    keep();
  }

  private void append(ByteBuffer in) {
    int count = in.getInt();
    all.ensureCapacity(all.size() + count);
    for (int i = 0; i < count; i++) all.add(Event.read(in));
  }

  private void keep() {
    written = all.size() < MANY ? 0 : all.size();
    told = null;
  }
}

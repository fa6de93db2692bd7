package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/**
 * Makes messages of the wrapped rows that a task reads.
 *
 * <p>In exact mode rows for a window are gathered here, by pane and key, and sent as one {@link Message#PARTIAL}; only a row
 * that may be late goes by itself, because it may have to be kept aside whole, and with it the watermark of the batch
 * before, by which the shard decides: what an operator gives when the watermark moves is not late for the next one in the
 * same batch. In live mode every row goes at once, with the
 * watermark of this task, which all shards are told now and then.
 */
final class ShardInput implements MapPartitionsFunction<byte[], byte[]> {
  private static final long serialVersionUID = 1L;
  private static final int MOST_GROUPS = 200_000;
  private static final int MOST_ROWS = 1_000_000;
  private static final long CLOCK_NANOS = 10_000_000;

  private final Operator operator;
  private final BatchWatermark watermark;
  private final boolean clockless;
  private final boolean gathers;
  private final long gap;
  private final Windowing windowing;

  /** Rows that are `clockless` are those of a table beside a stream: nobody is to wait for their time. */
  ShardInput(Operator operator, BatchWatermark watermark, boolean clockless) {
    this.operator = operator;
    this.watermark = watermark;
    this.clockless = clockless;
    this.gathers = !operator.live && ShardProcessor.gathers(operator);
    this.gap = operator.spec().path("gap_ms").asLong() * 1000;
    this.windowing = gathers && !isSession() && !operator.timeless ? Windowing.of(operator.spec()) : null;
  }

  @Override
  public Iterator<byte[]> call(Iterator<byte[]> rows) {
    Iterator<byte[]> messages = messages(rows);
    return operator.live ? messages : new Parcels(messages);
  }

  private Iterator<byte[]> messages(Iterator<byte[]> rows) {
    if (!gathers) return new Sent(rows);
    return switch (operator.kind) {
      case "aggregate" -> new GatheredGroups(rows);
      case "top" -> new GatheredRows(rows);
      case "session" -> new GatheredSessions(rows);
      default -> new GatheredPanes(rows);
    };
  }

  private boolean isSession() {
    return operator.kind.equals("session");
  }

  private static int keySize(byte[] wrapped) {
    return ByteBuffer.wrap(wrapped).getInt(8);
  }

  private byte[] message(byte[] wrapped, int wave, int sender, int senders, long clock) {
    int shard = operator.shard(Key.hash(wrapped, 12, keySize(wrapped)));
    byte[] out = new byte[Message.HEAD + 16 + wrapped.length];
    ByteBuffer.wrap(out).put(Message.row(wave)).putInt(shard).putInt(sender).putInt(senders).putLong(clock).put(wrapped);
    return out;
  }

  /** Those of the rows that tell which keys are frequent; null where there is one group. */
  private HotKeys.Sample sample() {
    return operator.key.isEmpty() ? null : new HotKeys.Sample(Meter.keys(operator, TaskContext.getPartitionId()));
  }

  private static Key key(byte[] wrapped) {
    return new Key(Arrays.copyOfRange(wrapped, 12, 12 + keySize(wrapped)));
  }

  /** Each row by itself. */
  private final class Sent implements Iterator<byte[]> {
    private final Iterator<byte[]> rows;
    private final ArrayDeque<byte[]> clocks = new ArrayDeque<>();
    private final int sender = TaskContext.getPartitionId();
    private final int senders = TaskContext.get().numPartitions();
    private final Wave.Sender waves = new Wave.Sender(operator.late);
    private final SenderClock own = new SenderClock(operator.delay, operator.many);
    private final HotKeys.Sample sample = sample();
    private long told = SenderClock.UNKNOWN;
    private long toldAt;
    private boolean ended;

    Sent(Iterator<byte[]> rows) {
      this.rows = rows;
      if (operator.live && clockless) tell(SenderClock.NONE);
    }

    @Override
    public boolean hasNext() {
      if (!clocks.isEmpty() || rows.hasNext()) return true;
      if (ended || clockless || !operator.live || !operator.chained) return false;
      ended = true;
      tell(reached());
      return true;
    }

    /** What has passed at the end of a batch: an operator that was asked has done all until its clock, others all there was. */
    private long reached() {
      long batch = watermark.micros(), before = Origin.current().reached();
      return batch == BatchWatermark.UNKNOWN ? before : Math.max(batch, before);
    }

    @Override
    public byte[] next() {
      if (!clocks.isEmpty()) return clocks.poll();
      byte[] wrapped = rows.next();
      if (sample != null && sample.isNext()) sample.note(key(wrapped));
      if (!operator.live) return message(wrapped, 0, sender, senders, watermark.before());
      long clock = own.with(ByteBuffer.wrap(wrapped).getLong(0));
      if (clock > told && System.nanoTime() - toldAt > CLOCK_NANOS) tell(clock);
      return message(wrapped, waves.next(), sender, senders, clock);
    }

    private void tell(long clock) {
      told = clock;
      toldAt = System.nanoTime();
      for (int shard : operator.shards) {
        clocks.add(new ByteSink(32).put(Message.CLOCK).putInt(shard).putInt(sender).putInt(senders).putLong(clock).bytes());
      }
    }
  }

  /** Rows gathered in groups; a row that may be late stays alone. */
  private abstract class Gathered<G> implements Iterator<byte[]> {
    private final Iterator<byte[]> rows;
    private final UnsafeRow row = new UnsafeRow(operator.rows.size());
    private final HotKeys.Sample sample = sample();
    private Iterator<G> ready;
    private byte[] alone;
    private Origin.Mean gathering = new Origin.Mean();
    private int gathered;
    /** The time of the records in the groups that are ready. */
    private long time;

    Gathered(Iterator<byte[]> rows) {
      this.rows = rows;
    }

    abstract int size();

    /** Gives the groups and begins anew. */
    abstract Iterator<G> empty();

    abstract boolean isLate(long at);

    abstract void gather(long at, Key key, UnsafeRow row);

    /** The same with what is sent when the row goes as it is. */
    void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
      gather(at, key, row);
    }

    /** What is sent of a group; `time` is that of the records in the groups. */
    abstract byte[] message(G group, long time);

    @Override
    public boolean hasNext() {
      while (alone == null) {
        if (ready != null && ready.hasNext()) return true;
        while (alone == null && size() < MOST_GROUPS && gathered < MOST_ROWS && rows.hasNext()) gather(rows.next());
        if (alone == null) {
          if (size() == 0) return false;
          ready = empty();
          time = gathering.value();
          gathering = new Origin.Mean();
          gathered = 0;
        }
      }
      return true;
    }

    private void gather(byte[] wrapped) {
      long at = ByteBuffer.wrap(wrapped).getLong(0);
      if (!operator.timeless && (at == Message.NO_TIME || isLate(at))) {
        alone = ShardInput.this.message(wrapped, 0, 0, 0, watermark.before());
        return;
      }
      int keySize = keySize(wrapped);
      row.pointTo(wrapped, Platform.BYTE_ARRAY_OFFSET + 12 + keySize, wrapped.length - 12 - keySize - Long.BYTES);
      gathered++;
      gathering.add(Message.recordTime(ByteBuffer.wrap(wrapped)));
      Key key = key(wrapped);
      if (sample != null && sample.isNext()) sample.note(key);
      gather(at, key, row, wrapped);
    }

    @Override
    public byte[] next() {
      if (!hasNext()) throw new NoSuchElementException();
      if (alone == null) return message(ready.next(), time);
      byte[] message = alone;
      alone = null;
      return message;
    }
  }

  private record PaneKey(long pane, Key key) {
    @Override
    public int hashCode() {
      // Panes are far apart and evenly so: without mixing, those of many keys meet.
      return key.hash ^ Long.hashCode(pane * 0x9E3779B97F4A7C15L);
    }
  }

  private static final class Pane {
    final PaneKey of;
    final Accumulator values;
    int rows;

    Pane(PaneKey of, Accumulator values) {
      this.of = of;
      this.values = values;
    }
  }

  private final class GatheredPanes extends Gathered<Pane> {
    private HashMap<PaneKey, Pane> panes = new HashMap<>();

    GatheredPanes(Iterator<byte[]> rows) {
      super(rows);
    }

    @Override
    int size() {
      return panes.size();
    }

    @Override
    Iterator<Pane> empty() {
      Iterator<Pane> full = panes.values().iterator();
      panes = new HashMap<>();
      return full;
    }

    @Override
    boolean isLate(long at) {
      return windowing.lastEnd(windowing.pane(at)) + operator.lateness <= watermark.micros();
    }

    @Override
    void gather(long at, Key key, UnsafeRow row) {
      PaneKey of = new PaneKey(windowing.pane(at), key);
      Pane pane = panes.get(of);
      if (pane == null) panes.put(of, pane = new Pane(of, operator.aggregates.empty()));
      operator.aggregates.add(pane.values, row, at);
      pane.rows++;
    }

    @Override
    byte[] message(Pane pane, long time) {
      Key key = pane.of.key;
      ByteSink out = new ByteSink(64 + key.bytes.length);
      out.put(Message.PARTIAL).putInt(operator.shard(key.hash)).putLong(pane.of.pane).putSized(key.bytes).putInt(pane.rows);
      operator.aggregates.write(pane.values, out);
      return out.putLong(time).bytes();
    }
  }

  /** What comes and goes of the rows of a group. */
  private static final class Delta {
    final Key of;
    final Accumulator values;
    int rows;

    Delta(Key of, Accumulator values) {
      this.of = of;
      this.values = values;
    }
  }

  private final class GatheredGroups extends Gathered<Delta> {
    private final int sign = Groups.sign(operator);
    private LinkedHashMap<Key, Delta> groups = new LinkedHashMap<>();

    GatheredGroups(Iterator<byte[]> rows) {
      super(rows);
    }

    @Override
    int size() {
      return groups.size();
    }

    @Override
    Iterator<Delta> empty() {
      Iterator<Delta> full = groups.values().iterator();
      groups = new LinkedHashMap<>();
      return full;
    }

    @Override
    boolean isLate(long at) {
      return false;
    }

    @Override
    void gather(long at, Key key, UnsafeRow row) {
      Delta delta = groups.get(key);
      if (delta == null) groups.put(key, delta = new Delta(key, operator.aggregates.empty()));
      boolean back = Groups.isBack(row, sign);
      if (back) operator.aggregates.remove(delta.values, row);
      else operator.aggregates.add(delta.values, row, at);
      delta.rows += back ? -1 : 1;
    }

    @Override
    byte[] message(Delta delta, long time) {
      ByteSink out = new ByteSink(64 + delta.of.bytes.length);
      out.put(Message.PARTIAL).putInt(operator.shard(delta.of.hash)).putLong(0).putSized(delta.of.bytes).putInt(delta.rows);
      operator.aggregates.write(delta.values, out);
      return out.putLong(time).bytes();
    }
  }

  /** The rows that may be among the first of their group. */
  private final class GatheredRows extends Gathered<Ranking.Entry> {
    private final Ranking ranking = new Ranking(operator);
    private final int most = operator.spec().get("n").asInt();
    private LinkedHashMap<Key, ArrayList<Ranking.Entry>> groups = new LinkedHashMap<>();
    private int size;

    GatheredRows(Iterator<byte[]> rows) {
      super(rows);
    }

    @Override
    int size() {
      return size;
    }

    @Override
    Iterator<Ranking.Entry> empty() {
      Iterator<Ranking.Entry> full = groups.values().stream().flatMap(ArrayList::stream).iterator();
      groups = new LinkedHashMap<>();
      size = 0;
      return full;
    }

    @Override
    boolean isLate(long at) {
      return false;
    }

    @Override
    void gather(long at, Key key, UnsafeRow row) {
      throw new UnsupportedOperationException();
    }

    @Override
    void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
      ArrayList<Ranking.Entry> known = groups.get(key);
      if (known == null) groups.put(key, known = new ArrayList<>(1));
      boolean full = known.size() == most;
      if (full && ranking.isBehind(row, known.get(most - 1))) return;
      Ranking.Entry one = ranking.entry(row, wrapped, 12 + keySize(wrapped));
      if (full && ranking.compare(one, known.get(most - 1)) >= 0) return;
      int place = Collections.binarySearch(known, one, ranking::compare);
      known.add(place < 0 ? -place - 1 : place, one);
      if (known.size() > most) known.remove(most);
      else size++;
    }

    @Override
    byte[] message(Ranking.Entry one, long time) {
      return ShardInput.this.message(one.bytes, 0, 0, 0, watermark.before());
    }
  }

  private final class GatheredSessions extends Gathered<Map.Entry<Key, ArrayList<Session>>> {
    private HashMap<Key, ArrayList<Session>> sessions = new HashMap<>();

    GatheredSessions(Iterator<byte[]> rows) {
      super(rows);
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
    void gather(long at, Key key, UnsafeRow row) {
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
      out.put(Message.SESSION).putInt(operator.shard(of.getKey().hash)).putSized(of.getKey().bytes).putInt(of.getValue().size());
      for (Session session : of.getValue()) session.write(out, operator.aggregates);
      return out.putLong(time).bytes();
    }
  }
}

package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.meters.Meter;
import headrace.kernel.run.Origin;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.Value;
import headrace.kernel.time.BatchWatermark;
import headrace.kernel.time.Senders;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A shard of an operator at work: messages in, rows out, all its state in a {@link ShardStore}.
 *
 * <p><b>Time.</b> In exact mode the clock is the watermark that Spark recorded for the batch, so a
 * batch that is run again does the same; a row is late by that of the batch before, as what is over
 * is done with after the rows of a batch. In live mode Spark's stands still for the length of a
 * batch, so the shard keeps its own: the slowest of the senders' watermarks that come with the
 * messages, without those that were quiet for long. What must happen when time has passed is done
 * when the shard's clock moves; a timer of Spark's at the next such time wakes shards without
 * messages.
 *
 * <p>Behind an operator that holds rows back, Spark's watermark of a live batch is ahead of rows
 * that are still to come in it; that of the batch before is not. Such a shard waits for all
 * senders, however quiet, and each says at the end of a batch how far it has come.
 *
 * <p><b>State.</b> In exact mode it is written after the messages of a batch. In live mode there is
 * no such moment; a timer that is always due, which Spark looks at for the last time when the batch
 * ends, gives one.
 */
public abstract class ShardProcessor<V> extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  private static final int MESSAGE = 1;
  private static final long AT_THE_END = -1;
  static final long NEVER = Long.MAX_VALUE;
  private static final int TIMER = 0;

  /** The first of an operator's own numbers in {@link ShardStore#marks}. */
  static final int OWN_MARKS = 1;

  final Operator operator;
  private BatchWatermark recorded;
  transient ShardStore<V> store;
  transient Meter.Gauge gauge;

  /** The clock, in microseconds. */
  transient long now;

  /**
   * What is later than this, in microseconds, may be refused: rows are held against it, and not
   * against the clock.
   */
  transient long horizon;

  private transient MapState<byte[], byte[]> data;
  private transient ValueState<byte[]> root;
  private transient List<Row> out;
  private transient List<String> origins;
  private transient List<Long> pairs;
  private transient List<Back> backs;

  /** The {@link Origin#pair} that is given, or 0, and the last one. */
  private transient long pair;

  private transient long lastPair;
  private transient Origin.Times times;

  /** The record times of the messages of the call at hand. */
  private transient Origin.Mean received;

  /** That of the row at hand, or of all in the call. */
  private transient long time;

  /** How many rows with either marker were taken in the call at hand. */
  private transient int[] taken;

  /** Where the row at hand came from, where that is told. */
  transient String origin;

  /** The record because of which something is given; null when it is the clock. */
  private transient String cause;

  private transient UnsafeProjection projection;
  private transient UnsafeRow row;
  private transient Senders senders;

  /** Who has sent the row at hand, in live mode, and which rows it was given with. */
  transient int sender;

  transient long bundle;
  transient int bundled;
  private transient boolean endAsked;

  /** A row that is taken back, to be given after all that come. */
  private record Back(byte[] row, String origin, long pair) {}

  ShardProcessor(Operator operator) {
    this.operator = operator;
  }

  public Operator operator() {
    return operator;
  }

  public static StatefulProcessor<Row, Row, Row> of(Operator operator, BatchWatermark watermark) {
    ShardProcessor<?> processor = operator.processor();
    processor.recorded = watermark;
    return processor;
  }

  /** Numbers that an empty shard begins with. */
  long[] ownMarks() {
    return new long[0];
  }

  abstract ShardStore.Codec<V> codec();

  /** A row; `row` holds its bytes only until the next one. */
  abstract void take(Key key, long at, UnsafeRow row);

  /** What was gathered of so many rows of a pane and key. */
  void take(Key key, long pane, int rows, Accumulator gathered) {
    throw new UnsupportedOperationException();
  }

  /** What was gathered of rows of a session and key. */
  void take(Key key, Session session) {
    throw new UnsupportedOperationException();
  }

  /** After messages: gives what has changed, some of it; whether there may be more. */
  boolean settle() {
    return false;
  }

  /** The first of what was touched, which is no longer there then; null when there is none. */
  static <K, T> Map.Entry<K, T> poll(LinkedHashMap<K, T> touched) {
    if (touched.isEmpty()) return null;
    java.util.Iterator<Map.Entry<K, T>> first = touched.entrySet().iterator();
    Map.Entry<K, T> one = first.next();
    first.remove();
    return one;
  }

  /** In live mode, before the state is written: does what was put off. */
  void finish() {}

  /** Does what is due at {@link #now}. */
  void pass() {}

  /** When something is due next, in microseconds, or {@link #NEVER}. */
  long due() {
    return NEVER;
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    data = getHandle().getMapState("data", Encoders.BINARY(), Encoders.BINARY(), TTLConfig.NONE());
    root = getHandle().getValueState("root", Encoders.BINARY(), TTLConfig.NONE());
  }

  private void open(int shard, TimerValues clock) {
    if (store == null) {
      long[] own = ownMarks(), marks = new long[OWN_MARKS + own.length];
      marks[TIMER] = NEVER;
      System.arraycopy(own, 0, marks, OWN_MARKS, own.length);
      store = ShardStore.kept(name(shard), getHandle().getQueryInfo(), data, root);
      if (store == null) store = ShardStore.open(codec(), marks, data, root);
      gauge = operator.late.gauge(TaskContext.getPartitionId());
      projection = UnsafeProjection.create(operator.output);
      row = new UnsafeRow(operator.rows.size());
      senders = new Senders(follows() ? NEVER : operator.idleMillis);
      now = horizon = Long.MIN_VALUE;
      opened();
    }
    begin();
    lastPair = Origin.nextGroup(lastPair);
    received = new Origin.Mean();
    time = Origin.NO_TIME;
    taken = new int[2];
    now = Math.max(now, follows() ? recorded.before() : clock.getCurrentWatermarkInMs() * 1000);
    if (operator.live) horizon = now;
  }

  /** Begins with results. */
  private void begin() {
    out = new ArrayList<>();
    origins = operator.origins ? new ArrayList<>() : null;
    pairs = new ArrayList<>();
    backs = new ArrayList<>();
    times = new Origin.Times();
  }

  /** Whether the clock is only what senders say, and not Spark's. */
  private boolean follows() {
    return operator.live && operator.chained;
  }

  /** Called once, when the store is there. */
  void opened() {}

  private String name(int shard) {
    return operator.late.name() + '\t' + shard;
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues clock) {
    int shard = key.getInt(0);
    open(shard, clock);
    if (!operator.live) return CollectionConverters.asScala(new Work(shard, rows));
    while (rows.hasNext()) receive(ByteBuffer.wrap(rows.next().getAs(MESSAGE)));
    time = received.value();
    while (settle()) {}
    passing();
    close(shard);
    return CollectionConverters.asScala(result());
  }

  /**
   * The results of a batch in exact mode: what is next to be done is done when all that is there
   * was passed on.
   */
  private final class Work implements java.util.Iterator<Row> {
    private static final int ENOUGH = 1000;
    private final int shard;
    private final Iterator<Row> messages;
    private java.util.Iterator<ByteBuffer> packet = Collections.emptyIterator();
    private java.util.Iterator<Row> given = Collections.emptyIterator();
    private boolean settling;
    private boolean done;

    Work(int shard, Iterator<Row> messages) {
      this.shard = shard;
      this.messages = messages;
    }

    @Override
    public boolean hasNext() {
      while (!given.hasNext()) {
        if (done) return false;
        begin();
        while (!done && out.size() < ENOUGH) step();
        given = result();
      }
      return true;
    }

    private void step() {
      while (!packet.hasNext() && messages.hasNext())
        packet = new MessagePackets.Opened(messages.next().getAs(MESSAGE));
      if (packet.hasNext()) {
        receive(packet.next());
        return;
      }
      if (!settling) time = received.value();
      settling = true;
      if (settle()) return;
      passing();
      close(shard);
      done = true;
    }

    @Override
    public Row next() {
      return given.next();
    }
  }

  @Override
  public Iterator<Row> handleExpiredTimer(Row key, TimerValues clock, ExpiredTimerInfo timer) {
    int shard = key.getInt(0);
    open(shard, clock);
    if (timer.getExpiryTimeInMs() == AT_THE_END) endAsked = false;
    else if (timer.getExpiryTimeInMs() == store.marks[TIMER]) store.marks[TIMER] = NEVER;
    if (operator.live) finish();
    passing();
    wake();
    // A timer that is asked for here may not be looked at in this batch, so what was done is
    // written at once.
    write(shard);
    return CollectionConverters.asScala(result());
  }

  /** Does what is due because of the clock. */
  private void passing() {
    cause = null;
    pass();
  }

  private void receive(ByteBuffer in) {
    byte kind = in.get();
    in.getInt();
    if (kind != Message.CLOCK) received.add(time = Message.recordTime(in));
    if (kind == Message.PARTIAL) {
      long pane = in.getLong();
      take(new Key(Value.sized(in)), pane, in.getInt(), operator.aggregates.read(in));
      return;
    }
    if (kind == Message.SESSION) {
      Key key = new Key(Value.sized(in));
      for (int i = 0, count = in.getInt(); i < count; i++)
        take(key, Session.read(in, operator.aggregates));
      return;
    }
    sender = in.getInt();
    int count = in.getInt();
    long watermark = in.getLong();
    if (!operator.live) horizon = Math.max(horizon, watermark);
    if (kind == Message.row(0) || kind == Message.row(1)) {
      taken[Message.marker(kind)]++;
      long at = in.getLong();
      Key key = new Key(Value.sized(in));
      if (operator.origins) {
        byte[] text = Value.sized(in);
        cause = origin = text.length == 0 ? null : new String(text, StandardCharsets.UTF_8);
        bundle = in.getLong();
        bundled = in.getInt();
      }
      row.pointTo(
          in.array(), Platform.BYTE_ARRAY_OFFSET + in.position(), in.remaining() - Long.BYTES);
      if (at == Message.NO_TIME && !operator.timeless) late(null);
      else take(key, at, row);
    }
    if (operator.live) now = horizon = Math.max(now, senders.hear(sender, count, watermark));
  }

  /** A row is too late: it is counted, and kept aside unless that is not wanted. */
  void late(Long at) {
    late(row, operator.input, at);
  }

  /** The same of a row that is inside the message, with these columns. */
  final void late(UnsafeRow inside, StructType columns, Long at) {
    if (operator.options.dropLate()) gauge.add(Meter.LATE);
    else operator.late.send(inside, columns, at, now, gauge);
  }

  /** The row of the message at hand. */
  final UnsafeRow message() {
    return row;
  }

  private void close(int shard) {
    wake();
    if (!operator.live) {
      write(shard);
    } else if (!endAsked) {
      getHandle().registerTimer(AT_THE_END);
      endAsked = true;
    }
  }

  /** Sets the timer to when something is due next. */
  private void wake() {
    long due = follows() ? NEVER : due();
    long wake =
        due == NEVER
            ? NEVER
            : Math.max(0, Math.floorDiv(due, 1000L) + (Math.floorMod(due, 1000L) == 0 ? 0 : 1));
    if (wake != store.marks[TIMER]) {
      if (store.marks[TIMER] != NEVER) getHandle().deleteTimer(store.marks[TIMER]);
      if (wake != NEVER) getHandle().registerTimer(wake);
      store.marks[TIMER] = wake;
    }
  }

  private void write(int shard) {
    store.flush();
    gauge.set(Meter.KEYS, store.entries());
    gauge.set(Meter.BYTES, store.bytes());
    store.keep(name(shard), getHandle().getQueryInfo());
  }

  /**
   * Gives a row in the place of another; either may be missing. The row that goes is given right
   * before the one that comes, and whoever writes a view knows by that order alone that it is
   * replaced (`TransactionalSink`): Python functions read rows ahead, so nothing can be said beside
   * a row. In a view in live mode, where there are none and rows reach the next operator one by
   * one, all rows that come are given before those that go: what only moves is never away. Both are
   * an {@link Origin#pair}.
   */
  final void replace(Object[] before, Object[] after) {
    if (before == null || after == null || !isPaired()) {
      if (before != null) emit(ResultRow.minus(before));
      if (after != null) emit(after);
      return;
    }
    pair = ++lastPair;
    emit(after);
    emit(ResultRow.minus(before));
    pair = 0;
  }

  private boolean isPaired() {
    return operator.view && operator.live;
  }

  /** Gives a row with these values, in Spark's internal form, because of the row at hand. */
  final void emit(Object[] values) {
    emit(values, Origin.caused(cause, operator.late.operator()));
  }

  /** The same of what is told once for a key and a time. */
  final void emit(Object[] values, Key key, long at) {
    emit(values, operator.origins ? Origin.content(operator.late.operator(), key.bytes, at) : null);
  }

  /** The same of a row that was made of one record, or of one among others. */
  final void emit(Object[] values, String origin) {
    // A copy: the projection writes every row to the same bytes.
    byte[] packed = projection.apply(new GenericInternalRow(values)).copy().getBytes();
    if (isPaired() && operator.changes && ResultRow.isMinus(values))
      backs.add(new Back(packed, origin, pair));
    else give(packed, origin);
  }

  /** Gives a row of the output that is packed already. */
  final void give(byte[] row) {
    give(row, (String) null);
  }

  private void give(byte[] row, String origin) {
    times.add(time);
    if (operator.origins) origins.add(origin);
    if (isPaired()) pairs.add(pair);
    out.add(RowFactory.create((Object) row));
  }

  private java.util.Iterator<Row> result() {
    for (Back back : backs) {
      pair = back.pair;
      give(back.row, back.origin);
    }
    pair = 0;
    if (operator.live && operator.clocked) Origin.current().reaching(now);
    List<Row> given = out;
    int[] done = taken;
    out = null;
    Runnable end = operator.live ? () -> gauge.taken(done) : () -> {};
    java.util.Iterator<Row> each = Origin.telling(given, origins, times, operator.live, end);
    return isPaired() ? Origin.pairing(each, pairs) : each;
  }
}

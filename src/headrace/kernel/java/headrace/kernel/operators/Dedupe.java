package headrace.kernel.operators;

import headrace.kernel.meters.Marker;
import headrace.kernel.meters.Meter;
import headrace.kernel.run.Origin;
import headrace.kernel.state.PackedRow;
import headrace.kernel.state.SeenKeys;
import headrace.kernel.time.Delay;
import headrace.kernel.time.SenderClock;
import headrace.kernel.time.Senders;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * What is left of the rows of `hr.dedupe`; operators/dedupe.py says what it means.
 *
 * <p>State: for each bucket of keys (`Fingerprint`) a list of chunks, each the keys and times that
 * one call kept. A call appends one chunk; a list of many chunks, or one that a timer found to hold
 * expired times, is written anew as one. A time may go when the watermark has reached it plus
 * `within`; an event-time timer at the next whole slice after that sees to it, so a bucket has a
 * handful of timers however many keys it holds. The tables of recently used buckets stay in memory
 * for the length of the task, which in real-time mode is minutes.
 *
 * <p>The clock is Spark's recorded watermark in every mode, so a batch that is run again decides
 * the same. In live mode rows bring the clocks of their senders along, for operators behind this
 * one.
 */
public final class Dedupe extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  public static final StructType KEY = new StructType().add("bucket", DataTypes.IntegerType, false);
  public static final StructType OUTPUT =
      new StructType().add(PackedRow.COLUMN, DataTypes.BinaryType);
  private static final int HIGH = 1;
  private static final int LOW = 2;
  private static final int TIME = 3;
  private static final int PACKED = 4;
  private static final int ORIGIN = 5;
  private static final int STAMP = 6;
  private static final int CLOCK = 7;
  private static final int SLICES = 4;
  private static final int MOST_CHUNKS = 64;
  private static final int CACHED_ENTRIES = 1 << 20;

  private final StructType schema;
  private final long within;
  private final long slice;
  private final LateRows late;
  private final boolean live;
  private final boolean origins;
  private final long idleMillis;
  private transient Senders senders;
  private transient long now;
  private transient ListState<byte[]> chunks;
  private transient Meter.Gauge gauge;
  private transient LinkedHashMap<Integer, Bucket> cache;
  private transient int cachedEntries;

  /** A bucket in memory. */
  private static final class Bucket {
    final SeenKeys seen = new SeenKeys();
    final HashSet<Long> timers = new HashSet<>();
    int chunks;
  }

  /**
   * Of rows with this schema. In live mode, and with `origins`, rows are called by their key and
   * time, since which of several repeats comes first may be another when a batch is run again.
   */
  public Dedupe(
      StructType schema,
      long within,
      LateRows late,
      boolean live,
      boolean origins,
      long idleMillis) {
    this.schema = schema;
    this.within = within;
    this.slice = Math.max(1000, within / SLICES / 1000 * 1000);
    this.late = late;
    this.live = live;
    this.origins = live || origins;
    this.idleMillis = idleMillis;
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    chunks = getHandle().getListState("chunks", Encoders.BINARY(), TTLConfig.NONE());
    cache = new LinkedHashMap<>(256, 0.75f, true);
    cachedEntries = 0;
    senders = new Senders(idleMillis);
    now = SenderClock.UNKNOWN;
  }

  /** The clock of the task that sends rows: its number, how many there are, and its clock. */
  public static final class Clock implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Delay delay;
    private final boolean many;
    private transient SenderClock clock;

    /** `many`: one row of the operator before may be several that are sent. */
    public Clock(Delay delay, boolean many) {
      this.delay = delay;
      this.many = many;
    }

    /** Called by Spark for each row. */
    public byte[] with(long at) {
      if (clock == null) clock = new SenderClock(delay, many);
      ByteBuffer out = ByteBuffer.allocate(2 * Integer.BYTES + Long.BYTES);
      TaskContext task = TaskContext.get();
      return out.putInt(task.partitionId())
          .putInt(task.numPartitions())
          .putLong(clock.with(at))
          .array();
    }
  }

  private void hear(byte[] clock) {
    ByteBuffer in = ByteBuffer.wrap(clock);
    now = Math.max(now, senders.hear(in.getInt(), in.getInt(), in.getLong()));
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues clock) {
    if (gauge == null) gauge = late.gauge(TaskContext.getPartitionId());
    long watermark = Math.multiplyExact(clock.getCurrentWatermarkInMs(), 1000L);
    Bucket bucket = bucket(key.getInt(0), watermark);
    SeenKeys seen = bucket.seen;
    int before = seen.size();
    List<Row> out = new ArrayList<>();
    List<String> told = origins ? new ArrayList<>() : null;
    Origin.Times times = new Origin.Times();
    int[] taken = new int[2];
    ByteBuffer fresh = SeenKeys.chunk(16);
    while (rows.hasNext()) {
      Row row = rows.next();
      long stamp = row.getLong(STAMP);
      taken[Marker.of(stamp)]++;
      if (live) hear(row.getAs(CLOCK));
      byte[] packed = row.getAs(PACKED);
      if (row.isNullAt(TIME)) {
        late.send(packed, schema, null, watermark, gauge);
        continue;
      }
      if (!row.isNullAt(HIGH)) {
        long at = row.getLong(TIME), high = row.getLong(HIGH), low = row.getLong(LOW);
        if (at + within <= watermark) {
          late.send(packed, schema, at, watermark, gauge);
          continue;
        }
        if (seen.contains(high, low, at, within)) {
          gauge.add(Meter.REPEATS);
          continue;
        }
        if (bucket.timers.add(expiry(at))) getHandle().registerTimer(expiry(at));
        seen.add(high, low, at);
        if (!fresh.hasRemaining()) fresh = SeenKeys.chunk(fresh.capacity() / 12).put(fresh.flip());
        SeenKeys.entry(fresh, high, low, at);
      }
      out.add(RowFactory.create((Object) packed));
      times.add(Marker.time(stamp));
      if (origins) told.add(origin(row));
    }
    if (fresh.position() > 0) {
      cachedEntries += seen.size() - before;
      if (++bucket.chunks > MOST_CHUNKS) {
        chunks.put(new byte[][] {seen.bytes()});
        bucket.chunks = 1;
      } else {
        chunks.appendValue(Arrays.copyOf(fresh.array(), fresh.position()));
      }
    }
    if (live) Origin.current().reached(now);
    return scala.jdk.javaapi.CollectionConverters.asScala(
        Origin.telling(out, told, times, live, live ? () -> gauge.taken(taken) : () -> {}));
  }

  @Override
  public Iterator<Row> handleExpiredTimer(Row key, TimerValues clock, ExpiredTimerInfo timer) {
    long watermark = Math.multiplyExact(clock.getCurrentWatermarkInMs(), 1000L);
    forget(key.getInt(0));
    SeenKeys seen = bucket(key.getInt(0), watermark).seen;
    if (seen.size() == 0) {
      forget(key.getInt(0));
      chunks.clear();
    } else {
      chunks.put(new byte[][] {seen.bytes()});
      cache.get(key.getInt(0)).chunks = 1;
    }
    return scala.jdk.javaapi.CollectionConverters.<Row>asScala(List.<Row>of().iterator());
  }

  private String origin(Row row) {
    String from = row.getAs(ORIGIN);
    if (row.isNullAt(HIGH)) return from;
    String content =
        Origin.content(late.operator(), row.getLong(HIGH), row.getLong(LOW), row.getLong(TIME));
    return from == null ? content : Origin.place(from) + content;
  }

  /** The bucket, from memory or from the state, without what has expired. */
  private Bucket bucket(int number, long watermark) {
    Bucket known = cache.get(number);
    if (known != null) return known;
    Bucket bucket = new Bucket();
    Iterator<byte[]> stored = chunks.get();
    while (stored.hasNext()) {
      bucket.seen.load(stored.next(), watermark - within);
      bucket.chunks++;
    }
    bucket.seen.eachTime(at -> bucket.timers.add(expiry(at)));
    cache.put(number, bucket);
    cachedEntries += bucket.seen.size();
    while (cachedEntries > CACHED_ENTRIES && cache.size() > 1)
      forget(cache.keySet().iterator().next());
    return bucket;
  }

  private void forget(int number) {
    Bucket bucket = cache.remove(number);
    if (bucket != null) cachedEntries -= bucket.seen.size();
  }

  /** The end, in milliseconds, of the slice in which the watermark passes at + within. */
  private long expiry(long at) {
    return Math.floorDiv(at + within + slice - 1, slice) * (slice / 1000);
  }
}

package headrace.kernel.spark;

import headrace.kernel.time.SourceClock;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.runtime.MultipleWatermarkPolicy;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * The watermark of a query: the slowest of its sources' clocks, each less its delay.
 *
 * <p>Spark asks its tracker for the watermark whenever it plans a batch, with data or without, and
 * records the answer. This is that tracker with another answer: a {@link SourceClock} where the
 * source has one, Spark's own reckoning elsewhere. Because a quiet source moves it too, a window
 * closes without newer data. It takes the place of Spark's own when the tasks of the first batch
 * are made ready, which is before any of them can have moved it.
 */
public final class Watermark extends WatermarkTracker {
  private static final ConcurrentHashMap<UUID, Followed> FOLLOWED = new ConcurrentHashMap<>();

  private record Followed(SourceClock clock, SparkSession session) {
    /** The watermark of the source, in milliseconds. */
    long reached(long now) {
      long time = clock.time(now);
      return time == SourceClock.UNKNOWN ? 0 : Math.floorDiv(time, 1000L) - clock.delayMillis();
    }
  }

  private final WatermarkTracker spark;
  private final WatermarkPropagator operators;
  private final Map<UUID, Followed> followed;
  private final int others;
  private long reached;

  private Watermark(
      WatermarkTracker spark,
      WatermarkPropagator operators,
      LogicalPlan plan,
      Map<UUID, Followed> followed,
      int others) {
    super(MultipleWatermarkPolicy.apply("min"), plan);
    this.spark = spark;
    this.operators = operators;
    this.followed = followed;
    this.others = others;
    this.reached = spark.currentWatermark();
  }

  /** Rows whose watermark follows the clock; `column` is their event time. */
  public static Dataset<Row> follow(Dataset<Row> rows, String column, SourceClock clock) {
    Dataset<Row> marked = rows.withWatermark(column, clock.delayMillis() + " milliseconds");
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) marked).logicalPlan();
    follow(((EventTimeWatermark) plan).nodeId(), clock, rows.sparkSession());
    return marked;
  }

  private static void follow(UUID watermark, SourceClock clock, SparkSession session) {
    FOLLOWED.put(watermark, new Followed(clock, session));
    clock.atBatch(Watermark::take);
  }

  /** The same watermark, following the clock that takes the place of its own where one does. */
  static EventTimeWatermark following(
      EventTimeWatermark watermark, Map<SourceClock, SourceClock> anew) {
    Followed one = FOLLOWED.get(watermark.nodeId());
    SourceClock clock = one == null ? null : anew.remove(one.clock);
    if (clock == null) return watermark;
    UUID id = UUID.randomUUID();
    follow(id, clock, one.session);
    return watermark.copy(id, watermark.eventTime(), watermark.delay(), watermark.child());
  }

  /** Whether the rows have a watermark already, wherever it was set; Spark takes no second one. */
  public static boolean set(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows)
        .logicalPlan()
        .exists(EventTimeWatermark.class::isInstance);
  }

  /**
   * Takes all sources of a query for quiet until they speak, so that its watermark comes to their
   * newest event.
   */
  public static void assumeIdle(String query) {
    FOLLOWED.values().stream()
        .filter(one -> one.clock.query().equals(query))
        .forEach(one -> one.clock.assumeIdle());
  }

  /**
   * What the clocks of a plan have reached, in milliseconds, and no less than before; outside of
   * Spark's engine.
   */
  public static long reached(LogicalPlan plan, long before) {
    long now = System.currentTimeMillis();
    long[] slowest = {Long.MAX_VALUE};
    plan.foreach(
        node -> {
          Followed one =
              node instanceof EventTimeWatermark watermark
                  ? FOLLOWED.get(watermark.nodeId())
                  : null;
          if (one != null) slowest[0] = Math.min(slowest[0], one.reached(now));
          return null;
        });
    return slowest[0] == Long.MAX_VALUE ? before : Math.max(before, slowest[0]);
  }

  /** Forgets the clocks of a query, before it is planned anew. */
  public static void forget(String query) {
    FOLLOWED.values().removeIf(one -> one.clock.query().equals(query));
  }

  /** Makes the running query of the clock follow it, if it does not yet. */
  private static void take(SourceClock clock) {
    for (Followed one : FOLLOWED.values()) {
      if (one.clock != clock) continue;
      for (StreamingQuery query : one.session.streams().active()) {
        if (clock.query().equals(query.name()))
          take(((StreamingQueryWrapper) query).streamingQuery());
      }
    }
  }

  private static void take(StreamExecution query) {
    WatermarkTracker known = (WatermarkTracker) Reflected.get(Reflected.WATERMARK_TRACKER, query);
    if (known == null || known instanceof Watermark) return;
    HashMap<UUID, Followed> followed = new HashMap<>();
    int[] others = {0};
    query
        .logicalPlan()
        .foreach(
            node -> {
              if (node instanceof EventTimeWatermark watermark) {
                Followed one = FOLLOWED.get(watermark.nodeId());
                if (one != null) followed.put(watermark.nodeId(), one);
                else others[0]++;
              }
              return null;
            });
    WatermarkPropagator operators =
        (WatermarkPropagator) Reflected.get(Reflected.WATERMARK_PROPAGATOR, query);
    Watermark own = new Watermark(known, operators, query.logicalPlan(), followed, others[0]);
    Reflected.set(Reflected.WATERMARK_TRACKER, query, own);
  }

  @Override
  public synchronized void setWatermark(long millis) {
    reached = millis;
    spark.setWatermark(millis);
  }

  @Override
  public synchronized void updateWatermark(SparkPlan executed) {
    spark.updateWatermark(executed);
  }

  @Override
  public synchronized long currentWatermark() {
    long now = System.currentTimeMillis(), slowest = others > 0 ? slowestOther() : Long.MAX_VALUE;
    for (Followed one : followed.values()) slowest = Math.min(slowest, one.reached(now));
    if (slowest > reached) {
      reached = slowest;
      // Spark has reckoned the next batch with the old one already, and does it again when it finds
      // nothing.
      operators.purge(Long.MAX_VALUE);
    }
    return reached;
  }

  /** Of the sources without a clock, as Spark has it. */
  private long slowestOther() {
    long slowest = Long.MAX_VALUE;
    scala.collection.Iterator<scala.Tuple2<UUID, scala.Option<Object>>> known =
        spark.watermarkMap().iterator();
    while (known.hasNext()) {
      scala.Tuple2<UUID, scala.Option<Object>> one = known.next();
      if (!followed.containsKey(one._1())) {
        slowest = Math.min(slowest, one._2().isEmpty() ? 0 : (Long) one._2().get());
      }
    }
    return slowest;
  }

  @Override
  public synchronized scala.collection.immutable.Map<UUID, scala.Option<Object>> watermarkMap() {
    return spark.watermarkMap();
  }
}

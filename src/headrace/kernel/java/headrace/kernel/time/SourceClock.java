package headrace.kernel.time;

import java.util.HashMap;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * How far the event time of one source has come, by partition.
 *
 * <p>Spark takes the newest event of all partitions for the time of a source, so a partition that
 * lags behind the others, as after a stop, has its rows called late. Here every task notes the
 * newest event of the partition that it reads, Spark brings the notes to the driver with the end of
 * the task, and the time of the source is that of the partition furthest behind. A partition that
 * was quiet for `idle` does not count until it speaks again; one that never spoke counts until the
 * clock is `idle` old. When all of them are quiet, time goes on with the wall clock from the newest
 * event.
 *
 * <p>Spark records the watermark that `Watermark` takes from here before it starts the batch that
 * uses it, so a batch that is run again has the same one, whatever was quiet at the time.
 */
public final class SourceClock extends AccumulatorV2<Long, Long> {
  private static final long serialVersionUID = 1L;
  public static final long UNKNOWN = Long.MIN_VALUE;
  private static final long STEP_MILLIS = 1000;

  private final String query;
  private final int partitions;
  private final long idleMillis;
  private final long startedAt;
  private final Delay delay;
  private final HashMap<Integer, Partition> seen = new HashMap<>();
  private boolean assumedIdle;
  private transient Consumer<SourceClock> atBatch;

  /**
   * What is known of a partition: the newest event, in microseconds, and when the driver last heard
   * of it.
   */
  public static final class Partition implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    long newest = UNKNOWN;
    long heardAt;

    void raise(long at) {
      if (at > newest) newest = at;
    }
  }

  /** The clock of a source with so many partitions that a query reads. */
  public SourceClock(String query, int partitions, long idleMillis, Delay delay) {
    this(query, partitions, idleMillis, delay, System.currentTimeMillis());
  }

  private SourceClock(String query, int partitions, long idleMillis, Delay delay, long startedAt) {
    this.query = query;
    this.partitions = partitions;
    this.idleMillis = idleMillis;
    this.delay = delay;
    this.startedAt = startedAt;
  }

  public String query() {
    return query;
  }

  /** Says who is told, on the driver, that the tasks of a batch are made ready. */
  public void atBatch(Consumer<SourceClock> told) {
    atBatch = told;
  }

  /** A clock of the same kind, which has not heard of anything yet. */
  public SourceClock another(SparkContext context) {
    SourceClock other = new SourceClock(query, partitions, idleMillis, delay.fresh());
    context.register(other);
    return other;
  }

  /** How far the watermark stays behind, in milliseconds. */
  public synchronized long delayMillis() {
    return Math.floorDiv(delay.micros() + 999, 1000L);
  }

  /** A task notes an event of a partition. */
  public void note(Partition partition, long at) {
    if (delay.isAdaptive() && partition.newest != UNKNOWN)
      delay.note(Math.max(0, partition.newest - at));
    partition.raise(at);
  }

  /** Where a task notes the events of a partition. */
  public Partition partition(int number) {
    return seen.computeIfAbsent(number, n -> new Partition());
  }

  /** Takes all partitions for quiet until one speaks. */
  public synchronized void assumeIdle() {
    assumedIdle = true;
  }

  /** The time of the source in microseconds, or {@link #UNKNOWN}. */
  public synchronized long time(long now) {
    long slowest = Long.MAX_VALUE, newest = UNKNOWN, heardAt = 0;
    for (Partition partition : seen.values()) {
      newest = Math.max(newest, partition.newest);
      heardAt = Math.max(heardAt, partition.heardAt);
      if (now - partition.heardAt < idleMillis) slowest = Math.min(slowest, partition.newest);
    }
    if (assumedIdle || newest == UNKNOWN) return newest;
    if (seen.size() < partitions && now - startedAt < idleMillis) return UNKNOWN;
    if (slowest != Long.MAX_VALUE) return slowest;
    return newest + Math.floorDiv(now - heardAt, STEP_MILLIS) * STEP_MILLIS * 1000;
  }

  @Override
  public synchronized void merge(AccumulatorV2<Long, Long> other) {
    long now = System.currentTimeMillis();
    assumedIdle = false;
    delay.merge(((SourceClock) other).delay);
    ((SourceClock) other)
        .seen.forEach(
            (number, heard) -> {
              Partition partition = partition(number);
              partition.raise(heard.newest);
              partition.heardAt = now;
            });
  }

  /** Spark makes the copies of a batch's tasks with it, on the driver, before they start. */
  @Override
  public AccumulatorV2<Long, Long> copyAndReset() {
    if (atBatch != null) atBatch.accept(this);
    return new SourceClock(query, partitions, idleMillis, delay.fresh(), startedAt);
  }

  @Override
  public synchronized AccumulatorV2<Long, Long> copy() {
    SourceClock copy = new SourceClock(query, partitions, idleMillis, delay.fresh(), startedAt);
    copy.merge(this);
    return copy;
  }

  @Override
  public synchronized boolean isZero() {
    return seen.isEmpty();
  }

  @Override
  public synchronized void reset() {
    seen.clear();
  }

  @Override
  public void add(Long at) {
    throw new UnsupportedOperationException("an event belongs to a partition");
  }

  @Override
  public Long value() {
    return time(System.currentTimeMillis());
  }
}

package headrace.kernel.meters;

import headrace.kernel.run.Origin;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * How long records took, in milliseconds, counted in buckets that are an eighth of their value
 * wide: so many numbers however many records there are. Any thread may count.
 *
 * <p>Below eight milliseconds each has a bucket of its own; the last bucket has whatever took
 * seventeen hours or more. engine/latency.py reads them.
 */
public final class Latencies {
  private static final int FINE = 3;
  static final int BUCKETS = 192;

  private final AtomicLongArray counts = new AtomicLongArray(BUCKETS);

  /** The bucket of a number of milliseconds. */
  static int bucket(long millis) {
    if (millis < 1 << FINE) return (int) Math.max(0, millis);
    int power = 63 - Long.numberOfLeadingZeros(millis);
    return Math.min(BUCKETS - 1, ((power - FINE) << FINE) + (int) (millis >> (power - FINE)));
  }

  void add(long millis) {
    counts.getAndIncrement(bucket(millis));
  }

  void read(long[] to, int from) {
    for (int i = 0; i < BUCKETS; i++) to[from + i] = counts.get(i);
  }

  /**
   * What one task has counted of a batch that is not yet in the log: the records' times before a
   * moment.
   */
  public static final class Batch {
    private final long since = System.currentTimeMillis();
    private final int[] counts = new int[BUCKETS];
    private long records;

    /** A record; its time is {@link Origin#NO_TIME} where it is not known. */
    public void add(long time) {
      records++;
      if (time != Origin.NO_TIME) counts[bucket(since - time)]++;
    }

    /** They all are in the log now. */
    public void written(Meter.Gauge sink) {
      sink.written(records);
      long more = System.currentTimeMillis() - since;
      Latencies to = sink.latencies();
      for (int i = 0; i < BUCKETS; i++)
        if (counts[i] > 0) to.counts.getAndAdd(bucket(least(i) + more), counts[i]);
    }
  }

  /** The least number of milliseconds of a bucket. */
  static long least(int bucket) {
    if (bucket < 1 << (FINE + 1)) return bucket;
    int power = bucket >> FINE;
    return (long) (bucket - (power << FINE) + (1 << FINE)) << (power - 1);
  }
}

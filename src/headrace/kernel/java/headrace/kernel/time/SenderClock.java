package headrace.kernel.time;

import headrace.kernel.run.Origin;

/**
 * The clock of a task that sends rows to an operator, in live mode: the newest event time that it
 * has sent, less the delay.
 *
 * <p>Where an operator gives the rows, they are of all partitions of its source, of which one may
 * be far behind the others: then the clock is no further than that operator's, which waits for the
 * slowest.
 */
public final class SenderClock {
  public static final long UNKNOWN = Origin.NO_TIME;

  /** That of a task that sends what has no time: nobody is to wait for it. */
  public static final long NONE = Long.MAX_VALUE;

  private static final int DELAY_ROWS = 1000;

  private final Delay delay;
  private final Origin origin = Origin.current();
  private final boolean many;
  private long behind;
  private int untilAsked = DELAY_ROWS;
  private long newest = UNKNOWN;

  /** `many`: one row of the operator before may be several that are sent. */
  public SenderClock(Delay delay, boolean many) {
    this.many = many;
    this.delay = delay.fresh();
    this.behind = this.delay.micros();
  }

  /** The clock with a row of this time, which may be {@link Origin#NO_TIME}. */
  public long with(long at) {
    if (delay.isAdaptive() && at != Origin.NO_TIME) {
      if (newest != UNKNOWN) delay.note(Math.max(0, newest - at));
      if (--untilAsked == 0) {
        untilAsked = DELAY_ROWS;
        behind = delay.micros();
      }
    }
    newest = Math.max(newest, at);
    if (newest == UNKNOWN) return UNKNOWN;
    if (!origin.isClocked()) return newest - behind;
    return Math.min(newest - behind, many ? origin.passed() : origin.reached());
  }
}

package headrace.kernel.time;

import java.util.HashMap;

/**
 * What a task of an operator has heard of the clocks of those that send to it, in live mode.
 *
 * <p>Its own clock is that of the slowest, once all have spoken. Who has been quiet for long is not
 * waited for.
 */
public final class Senders {
  /** By the number of the sender its clock, and when it spoke last. */
  private final HashMap<Integer, long[]> known = new HashMap<>();

  private final long openedAt = System.currentTimeMillis();
  private final long idleMillis;

  public Senders(long idleMillis) {
    this.idleMillis = idleMillis;
  }

  /**
   * The clock of the slowest when one of so many has spoken; {@link SenderClock#UNKNOWN} before all
   * have.
   */
  public long hear(int sender, int count, long clock) {
    long wall = System.currentTimeMillis();
    long[] one = known.computeIfAbsent(sender, s -> new long[] {SenderClock.UNKNOWN, 0});
    one[0] = Math.max(one[0], clock);
    one[1] = wall;
    if (known.size() < count && wall - openedAt < idleMillis) return SenderClock.UNKNOWN;
    long slowest = SenderClock.NONE;
    for (long[] other : known.values()) {
      if (wall - other[1] < idleMillis) slowest = Math.min(slowest, other[0]);
    }
    return slowest == SenderClock.NONE ? SenderClock.UNKNOWN : slowest;
  }
}

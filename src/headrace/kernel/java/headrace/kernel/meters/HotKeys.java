package headrace.kernel.meters;

import headrace.kernel.state.Key;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * Which keys of an operator most of the rows have that a task sends, by a sample of them.
 *
 * <p>The counts of a few keys (the space-saving algorithm): a key that is not among them takes the
 * place of the one with the lowest count, and that count. A key with more than 1 / {@link #MOST} of
 * the sample is always among them. Now and then all counts are halved, so that the past is
 * forgotten.
 */
public final class HotKeys {
  private static final int MOST = 64;
  private static final int ENOUGH = 1 << 16;
  private static final int STEP = 64;

  private final HashMap<Key, long[]> counts = new HashMap<>();
  private final Function<Key, String> text;
  private long total;

  /** What one task adds: some of its rows, about one in {@link #STEP} / 2, at uneven distances. */
  public static final class Sample {
    private final HotKeys keys;
    private int wait = 1;
    private int dice = 0x9E3779B9;

    public Sample(HotKeys keys) {
      this.keys = keys;
    }

    /** Whether to {@link #note} the row at hand. */
    public boolean isNext() {
      if (--wait > 0) return false;
      dice ^= dice << 13;
      dice ^= dice >>> 17;
      dice ^= dice << 5;
      wait = 1 + (dice & STEP - 1);
      return true;
    }

    public void note(Key key) {
      keys.note(key);
    }
  }

  /** `text` writes a key. */
  HotKeys(Function<Key, String> text) {
    this.text = text;
  }

  private synchronized void note(Key key) {
    total++;
    long[] known = counts.get(key);
    if (known == null) {
      long least = 0;
      if (counts.size() == MOST) {
        Key loser = null;
        for (Map.Entry<Key, long[]> one : counts.entrySet()) {
          if (loser != null && one.getValue()[0] >= least) continue;
          loser = one.getKey();
          least = one.getValue()[0];
        }
        counts.remove(loser);
      }
      counts.put(key, known = new long[] {least});
    }
    known[0]++;
    if (total < ENOUGH) return;
    total /= 2;
    counts.values().removeIf(count -> (count[0] /= 2) == 0);
  }

  /**
   * Of the most frequent key: its values as text, how often it was noted, and how often any was;
   * null when none was.
   */
  synchronized Map.Entry<String, long[]> hottest() {
    Map.Entry<Key, long[]> most = null;
    for (Map.Entry<Key, long[]> one : counts.entrySet()) {
      if (most == null || one.getValue()[0] > most.getValue()[0]) most = one;
    }
    if (most == null) return null;
    return Map.entry(text.apply(most.getKey()), new long[] {most.getValue()[0], total});
  }
}

package headrace.kernel.time;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import org.apache.datasketches.kll.KllDoublesSketch;
import org.apache.datasketches.memory.Memory;

/**
 * How far a watermark stays behind the newest event: fixed, or as far as a share of the events was
 * late, between two bounds.
 *
 * <p>The lateness of events is kept in a KLL sketch of the last {@link #MOST} to twice as many, so
 * that it follows a source whose habits change. Until enough events have been seen the upper bound
 * holds.
 */
public final class Delay implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int K = 200;
  private static final long LEAST = 1000;
  private static final long MOST = 500_000;

  private final double share;
  private final long least;
  private final long most;
  private transient KllDoublesSketch before;
  private transient KllDoublesSketch seen;

  /** Of `mostMillis`; or, with a share above 0, adaptive between the two bounds. */
  public Delay(double share, long leastMillis, long mostMillis) {
    this.share = share;
    this.least = leastMillis * 1000;
    this.most = mostMillis * 1000;
  }

  /** The same rule, with nothing seen yet. */
  Delay fresh() {
    return new Delay(share, least / 1000, most / 1000);
  }

  boolean isAdaptive() {
    return share > 0;
  }

  /** An event came that was so late, in microseconds. */
  void note(long lateness) {
    if (seen == null) seen = KllDoublesSketch.newHeapInstance(K);
    seen.update((double) lateness);
    turn();
  }

  void merge(Delay other) {
    if (other.seen == null) return;
    if (seen == null) seen = KllDoublesSketch.newHeapInstance(K);
    seen.merge(other.seen);
    turn();
  }

  private void turn() {
    if (seen.getN() < MOST) return;
    before = seen;
    seen = null;
  }

  /** The delay in microseconds. */
  long micros() {
    if (!isAdaptive()) return most;
    KllDoublesSketch all = KllDoublesSketch.newHeapInstance(K);
    if (before != null) all.merge(before);
    if (seen != null) all.merge(seen);
    if (all.getN() < LEAST) return most;
    return Math.max(least, Math.min(most, (long) Math.ceil(all.getQuantile(share))));
  }

  private void writeObject(ObjectOutputStream out) throws IOException {
    out.defaultWriteObject();
    out.writeObject(seen == null ? null : seen.toByteArray());
  }

  private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
    in.defaultReadObject();
    byte[] bytes = (byte[]) in.readObject();
    if (bytes != null) seen = KllDoublesSketch.heapify(Memory.wrap(bytes));
  }
}

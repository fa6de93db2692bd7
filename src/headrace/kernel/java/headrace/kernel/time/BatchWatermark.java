package headrace.kernel.time;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.Serializable;

/**
 * The recorded watermark of the batch that a task belongs to, for tasks to which Spark does not
 * tell it.
 *
 * <p>Tasks are made ready on the driver once a batch, and what they carry is written out then; that
 * is when it is looked up.
 */
public abstract class BatchWatermark implements Serializable {
  private static final long serialVersionUID = 1L;

  /** When it is not known. */
  public static final long UNKNOWN = Long.MAX_VALUE;

  /**
   * That of the batch at hand, in microseconds, and that of the batch before, or Long.MIN_VALUE.
   */
  public record Recorded(long micros, long before) implements Serializable {}

  private static final ThreadLocal<Recorded> GIVEN = new ThreadLocal<>();

  private Recorded recorded = new Recorded(UNKNOWN, Long.MIN_VALUE);

  /**
   * What is recorded of the batch whose tasks are made ready; null where it cannot be looked up.
   */
  protected abstract Recorded look();

  /**
   * Meanwhile this is what is looked up, for the batches of a simulation, which Spark knows nothing
   * of.
   */
  public static void given(long micros, long before, Runnable meanwhile) {
    GIVEN.set(new Recorded(micros, before));
    try {
      meanwhile.run();
    } finally {
      GIVEN.remove();
    }
  }

  public long micros() {
    return recorded.micros;
  }

  /** That of the batch before, or Long.MIN_VALUE. */
  public long before() {
    return recorded.before;
  }

  private void writeObject(ObjectOutputStream out) throws IOException {
    Recorded found = GIVEN.get() != null ? GIVEN.get() : look();
    if (found != null) recorded = found;
    out.defaultWriteObject();
  }
}

package headrace.kernel.operators;

import headrace.kernel.time.BatchWatermark;
import java.io.Serializable;
import java.util.Iterator;

/**
 * The options of an operator, which are a record: one component for each option that Python writes,
 * under its name (`withinMs` is `within_ms`). What others ask of an operator before it runs is
 * answered here, by a component of the same name or by the operator itself.
 */
public interface OperatorOptions extends Serializable {
  /** Whether results are given on every change, and not only when the clock has passed them. */
  default boolean early() {
    return false;
  }

  /** How long after its time a row may still count. */
  default long latenessMs() {
    return 0;
  }

  /** Whether a row that is too late is only counted, and not kept aside. */
  default boolean dropLate() {
    return false;
  }

  /** Whether rows without a time are taken, though the operator has a clock. */
  default boolean timeless() {
    return false;
  }

  /**
   * Whether rows come out when a time has passed, if they have one; what is only looked up comes
   * out at once.
   */
  default boolean holdsBack() {
    return true;
  }

  /**
   * The messages of the wrapped rows of a task that were put together before they are sent, in
   * exact mode; null where each row is sent by itself.
   */
  default Iterator<byte[]> gathered(
      Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
    return null;
  }

  /** Milliseconds as the microseconds that the kernel counts in. */
  static long micros(long millis) {
    return millis * 1000;
  }
}

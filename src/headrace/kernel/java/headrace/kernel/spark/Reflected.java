package headrace.kernel.spark;

import java.lang.reflect.Field;
import org.apache.spark.network.TransportContext;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;

/**
 * The private fields of Spark's classes that the kernel reads or writes; there is no other way to
 * them.
 */
final class Reflected {
  /**
   * Where a query keeps what says how far its watermark is, and what hands it on to its operators.
   */
  static final Field WATERMARK_TRACKER = field(MicroBatchExecution.class, "watermarkTracker");

  static final Field WATERMARK_PROPAGATOR = field(MicroBatchExecution.class, "watermarkPropagator");

  /** Who answers at a port of Spark's. */
  static final Field RPC_HANDLER = field(TransportContext.class, "rpcHandler");

  private Reflected() {}

  private static Field field(Class<?> of, String name) {
    try {
      Field field = of.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException e) {
      throw new IllegalStateException(
          "this version of Spark has no field `" + name + "` in " + of.getName(), e);
    }
  }

  /** The value of a field. */
  static Object get(Field field, Object of) {
    try {
      return field.get(of);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Puts another value there. */
  static void set(Field field, Object of, Object value) {
    try {
      field.set(of, value);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }
}

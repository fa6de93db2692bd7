package headrace.kernel.encode;

import java.io.Serializable;
import java.util.Arrays;
import java.util.HashSet;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import scala.reflect.ClassTag$;

/**
 * The ids of rows that stand in the topic already, though the batch that told them was never
 * finished: when it is run again they are left out ({@link Headers}).
 *
 * <p>The driver says which before a query starts. The plan holds this object, and tasks get what it
 * held when they were made.
 */
public final class Written implements Serializable {
  private static final long serialVersionUID = 1L;

  private Broadcast<HashSet<String>> ids;
  private transient HashSet<String> known;

  /** Ids, a line each; none with an empty text. */
  public void set(SparkContext spark, String lines) {
    known = null;
    ids =
        lines.isEmpty()
            ? null
            : spark.broadcast(
                new HashSet<>(Arrays.asList(lines.split("\n"))),
                ClassTag$.MODULE$.apply(HashSet.class));
  }

  boolean has(String id) {
    if (ids == null) return false;
    if (known == null) known = ids.value();
    return known.contains(id);
  }
}

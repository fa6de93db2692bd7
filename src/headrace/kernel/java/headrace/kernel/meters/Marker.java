package headrace.kernel.meters;

import headrace.kernel.run.Origin;
import java.io.Serializable;
import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;

/**
 * The marker, 0 or 1, that a row has on its way to the tasks of an operator, in live mode.
 *
 * <p>A live batch reports nothing until it ends, minutes later. To learn what is worked off
 * meanwhile, the engine turns the marker of an operator: rows that are sent from then on have the
 * other one, and when as many rows with the old one were taken as were sent, whatever was read
 * before has passed the operator. It is turned again only then, so two numbers do.
 */
public final class Marker {
  private static final ConcurrentHashMap<String, Integer> NUMBERS = new ConcurrentHashMap<>();

  private Marker() {}

  /**
   * Rows sent to the operator from now on, by every executor that has heard of it, have the other
   * marker; its number.
   */
  public static int turn(String query, String operator) {
    return NUMBERS.merge(query + '\t' + operator, 1, (now, one) -> now ^ one);
  }

  /** The marker in a stamp. */
  public static int of(long stamp) {
    return (int) (stamp & 1);
  }

  /** The record time in a stamp, or {@link Origin#NO_TIME}. */
  public static long time(long stamp) {
    return stamp >> 1 == 0 ? Origin.NO_TIME : stamp >> 1;
  }

  static HashMap<String, Integer> numbers() {
    return new HashMap<>(NUMBERS);
  }

  static void hear(String name, Integer number) {
    NUMBERS.put(name, number);
  }

  static void forget(String query) {
    NUMBERS.keySet().removeIf(name -> name.startsWith(query + '\t'));
  }

  /** Counts the rows that a task sends to an operator. */
  public static final class Sender implements Serializable {
    private static final long serialVersionUID = 1L;

    private final String query;
    private final String operator;
    private transient Meter.Gauge gauge;
    private transient String name;
    private transient Origin origin;

    /** Of rows that are sent to an operator of a query. */
    public Sender(String query, String operator) {
      this.query = query;
      this.operator = operator;
    }

    /**
     * Called for each row: the time of its record and its marker in one number, see {@link
     * Marker#time} and {@link Marker#of}.
     */
    public long stamp() {
      return time() + next();
    }

    /** The same in a mode without them. */
    public long time() {
      if (origin == null) origin = Origin.current();
      return origin.time() << 1;
    }

    /** Called for each row: its marker. */
    public int next() {
      if (gauge == null) {
        gauge = Meter.gauge(query, operator, TaskContext.getPartitionId());
        name = query + '\t' + operator;
      }
      int marker = NUMBERS.getOrDefault(name, 0);
      gauge.add(Meter.SENT + marker);
      return marker;
    }
  }
}

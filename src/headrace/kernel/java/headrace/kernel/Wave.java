package headrace.kernel;

import java.io.Serializable;
import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;

/**
 * The wave that a row belongs to on its way to the tasks of an operator, in live mode.
 *
 * <p>A live batch reports nothing until it ends, minutes later. To learn what is worked off meanwhile, the engine turns the
 * wave of an operator: rows sent from then on belong to the other one, and when as many rows of the old one were taken as were
 * sent, whatever was read before has passed the operator. A wave is turned again only then, so two numbers do.
 */
public final class Wave {
  private static final ConcurrentHashMap<String, Integer> NUMBERS = new ConcurrentHashMap<>();

  private Wave() {}

  /** Rows sent to the operator from now on, by every executor that has heard of it, belong to the other wave; its number. */
  public static int turn(String query, String operator) {
    return NUMBERS.merge(query + '\t' + operator, 1, (now, one) -> now ^ one);
  }

  /** The wave in a stamp. */
  static int of(long stamp) {
    return (int) (stamp & 1);
  }

  /** The record time in a stamp, or {@link Origin#NO_TIME}. */
  static long time(long stamp) {
    return stamp >> 1 == 0 ? Origin.NO_TIME : stamp >> 1;
  }

  static HashMap<String, Integer> numbers() {
    return new HashMap<>(NUMBERS);
  }

  static void hear(String name, Integer number) {
    NUMBERS.put(name, number);
  }

  /** Counts the rows that a task sends to an operator. */
  public static final class Sender implements Serializable {
    private static final long serialVersionUID = 1L;

    private final LateRows operator;
    private transient Meter.Gauge gauge;
    private transient String name;
    private transient Origin origin;

    Sender(LateRows operator) {
      this.operator = operator;
    }

    /** The time of each row's record and its wave in one number, as a column; see {@link Wave#time} and {@link Wave#of}. */
    static Column stamp(LateRows operator, boolean live) {
      return Invocation.effect(new Sender(operator), live ? "stamp" : "time", DataTypes.LongType);
    }

    /** Called for each row. */
    public long stamp() {
      return time() + next();
    }

    /** The same in a mode without waves. */
    public long time() {
      if (origin == null) origin = Origin.current();
      return origin.time() << 1;
    }

    /** Called for each row: its wave. */
    public int next() {
      if (gauge == null) {
        gauge = operator.gauge(TaskContext.getPartitionId());
        name = operator.name();
      }
      int wave = NUMBERS.getOrDefault(name, 0);
      gauge.add(Meter.SENT + wave);
      return wave;
    }
  }
}

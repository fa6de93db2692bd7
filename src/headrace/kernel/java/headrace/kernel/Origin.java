package headrace.kernel;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskFailureListener;

/**
 * The record that the row at hand was made of, so that what is written of it can carry an id by which repeats are told, and
 * that the time it took and a failure can be told.
 *
 * <p>A task works row by row in one thread: from the decoder through the user's functions to the encoder, or from an operator
 * that gives rows. So whoever brings a row forth says here where it came from, and no column that a `select` could lose has to
 * travel along. What an operator makes of many records has no origin, and no id, but a time: that of the record it takes, or
 * the mean of those that it takes together.
 *
 * <p>A failure of the task is told the record at hand ({@link At}), and carries it to the driver.
 */
public final class Origin {
  static final long NO_TIME = Long.MIN_VALUE;
  private static final int GROUP = 24;
  private static final ThreadLocal<Origin> CURRENT = new ThreadLocal<>();

  private final long task;
  private String topic;
  private int partition;
  private int branch;
  private long offset;
  private long time = NO_TIME;
  private String text;
  private int sent;
  private int written;
  private String name;
  private long pair;
  private long bundle;
  private int bundled = 1;
  private long reached = NO_TIME;
  private long reaching = NO_TIME;
  private long passed = NO_TIME;
  private boolean clocked;

  private Origin(long task) {
    this.task = task;
  }

  /** That of this task. */
  static Origin current() {
    TaskContext context = TaskContext.get();
    long task = context == null ? -1 : context.taskAttemptId();
    Origin known = CURRENT.get();
    if (known == null || known.task != task) {
      Origin fresh = known = new Origin(task);
      CURRENT.set(fresh);
      if (context != null) context.addTaskFailureListener((TaskFailureListener) (failed, error) -> fresh.tell(error));
    }
    return known;
  }

  /** A record as a branch of the query reads it ({@link Branches}), and its time in milliseconds. */
  void set(String topic, int partition, int branch, long offset, long time) {
    if (this.topic != topic || this.partition != partition || this.branch != branch) name = null;
    this.topic = topic;
    this.partition = partition;
    this.branch = branch;
    this.offset = offset;
    this.time = time;
    text = null;
    sent = written = 0;
  }

  /** What {@link #text} and {@link #time} were where the row came from; of one record there may be several in a row. */
  void set(String text, long time) {
    if (text == null || !text.equals(this.text)) sent = written = 0;
    this.text = text;
    this.time = time;
    if (topic != null) name = null;
    topic = null;
  }

  /** The record's time in milliseconds, or {@link #NO_TIME}. */
  long time() {
    return time;
  }

  /** How far the clock of the operator is that gives the rows, in microseconds, or {@link #NO_TIME}. */
  long reached() {
    return reached;
  }

  /** The same for whoever gets several rows for one that is given, and so does not know the last. */
  long passed() {
    return passed;
  }

  void reached(long clock) {
    passed = reached = clock;
    reaching(clock);
  }

  /**
   * How far the clock is when all rows that are given next were passed on. The last of them brings it: with an earlier one the
   * others would be late for whoever takes them, and after the last it may be long until anybody hears of it.
   */
  void reaching(long clock) {
    reaching = clock;
    clocked = true;
  }

  /** Whether an operator with a clock gives the rows. */
  boolean isClocked() {
    return clocked;
  }

  /** A number that the row at hand shares with those that an operator gave at once with it. */
  long bundle() {
    return bundle;
  }

  /** How many they are. */
  int bundled() {
    return bundled;
  }

  private void tell(Throwable error) {
    if (text() != null) error.addSuppressed(new At(text()));
  }

  /** The record that the row at hand was made of, when a task failed with this; null when nobody has told. */
  public static String of(Throwable error) {
    if (error == null) return null;
    for (Throwable one : error.getSuppressed()) if (one instanceof At at) return at.text;
    return of(error.getCause());
  }

  /** Goes with the failure of a task: the record that the row at hand was made of. */
  static final class At extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final String text;

    At(String text) {
      super("the row at hand came from " + text, null, false, false);
      this.text = text;
    }
  }

  /** The {@link #text} to go with the row to another task. Of several rows that are made of a record each has its own. */
  String next() {
    String of = told();
    int number = sent++;
    return of == null || number == 0 ? of : of + "/" + number;
  }

  /** The record's position as text, and the branch of the query that read it. */
  private String told() {
    return topic == null ? text() : Branches.named(text(), branch);
  }

  /** The record's position as text; null when there is none. */
  String text() {
    if (text == null && topic != null) text = topic + "[" + partition + "]@" + offset;
    return text;
  }

  /**
   * What the task that has the row at hand is called in a batch, however often the batch is run: the partition that it
   * reads and the branch of the query, since Spark may number those in another order the next time; behind a shuffle its
   * number, which goes by key. The same object as long as it is the same.
   */
  String task() {
    if (name == null && topic == null) name = String.valueOf(TaskContext.getPartitionId());
    if (name == null) name = Branches.named(topic + "-" + partition, branch);
    return name;
  }

  /**
   * The number that the row at hand shares with another, which came before it and takes its place, or comes after it and is
   * replaced; 0 when there is none. All rows of the pairs of a {@link #group} come before those of the next group.
   */
  long pair() {
    return pair;
  }

  static long group(long pair) {
    return pair >>> GROUP;
  }

  /** The first number of the group after that of this pair. */
  static long nextGroup(long pair) {
    return group(pair) + 1 << GROUP;
  }

  /**
   * Rows that come forth one by one, each with its time and, unless `origins` is null, its origin said first; at the end,
   * when all were passed on, `done`.
   */
  static <T> Iterator<T> telling(List<T> rows, List<String> origins, Times times, Runnable done) {
    Origin origin = current();
    origin.bundle++;
    origin.bundled = rows.size();
    return new Iterator<>() {
      private int next;
      private boolean over;

      @Override
      public boolean hasNext() {
        boolean more = next < rows.size();
        if (!more && !over) {
          origin.set(null, NO_TIME);
          origin.passed = origin.reached = origin.reaching;
          done.run();
        }
        over |= !more;
        return more;
      }

      @Override
      public T next() {
        origin.set(origins == null ? null : origins.get(next), times.get(next));
        if (next == rows.size() - 1) origin.reached = origin.reaching;
        return rows.get(next++);
      }
    };
  }

  /** Rows that come forth one by one, each with the number of its {@link #pair} said first. */
  static <T> Iterator<T> pairing(Iterator<T> rows, List<Long> pairs) {
    Origin origin = current();
    Iterator<Long> of = pairs.iterator();
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return rows.hasNext();
      }

      @Override
      public T next() {
        origin.pair = of.next();
        return rows.next();
      }
    };
  }

  /** The record times of the rows that an operator gives. */
  static final class Times {
    private long[] values = new long[16];
    private int size;

    void add(long time) {
      if (size == values.length) values = Arrays.copyOf(values, 2 * size);
      values[size++] = time;
    }

    long get(int row) {
      return values[row];
    }
  }

  /** The mean of record times. */
  static final class Mean {
    private long base;
    private long sum;
    private long count;

    void add(long time) {
      if (time == NO_TIME) return;
      if (count++ == 0) base = time;
      sum += time - base;
    }

    long value() {
      return count == 0 ? NO_TIME : base + sum / count;
    }
  }

  /** {@link #next} as a column. */
  public static final class Text implements Serializable {
    private static final long serialVersionUID = 1L;
    private transient Origin origin;

    static Column column() {
      return Invocation.effect(new Text(), "next", DataTypes.StringType);
    }

    /** Called by Spark for each row. */
    public UTF8String next() {
      if (origin == null) origin = current();
      return UTF8String.fromString(origin.next());
    }
  }

  /**
   * The partition that a record without a key is written to, of so many: that of the row's origin. So what is made of one
   * partition, or behind a shuffle of one key, stays together and in order, and a batch that is run again is cut alike.
   */
  public static final class Partition implements Serializable {
    private static final long serialVersionUID = 1L;

    private final int partitions;
    private transient Origin origin;

    private Partition(int partitions) {
      this.partitions = partitions;
    }

    static Column column(int partitions) {
      return Invocation.effect(new Partition(partitions), "next", DataTypes.IntegerType);
    }

    /** Called by Spark for each row. */
    public int next() {
      if (origin == null) origin = current();
      return (origin.topic == null ? TaskContext.getPartitionId() : origin.partition) % partitions;
    }
  }

  /** The headers of a record that is written: `headrace.id`, which is the query, the origin and a number. */
  public static final class Headers implements Serializable {
    private static final long serialVersionUID = 1L;
    static final DataType TYPE = DataTypes.createArrayType(
        new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType));
    private static final UTF8String NAME = UTF8String.fromString("headrace.id");

    private final String query;
    private transient Origin origin;

    private Headers(String query) {
      this.query = query;
    }

    static Column column(String query) {
      return Invocation.effect(new Headers(query), "next", TYPE);
    }

    /** Called by Spark for each row. */
    public ArrayData next() {
      if (origin == null) origin = current();
      String text = origin.told();
      if (text == null) return null;
      String id = query + ":" + text + "#" + origin.written++;
      InternalRow header = new GenericInternalRow(new Object[] {NAME, id.getBytes(StandardCharsets.UTF_8)});
      return new GenericArrayData(new Object[] {header});
    }
  }
}

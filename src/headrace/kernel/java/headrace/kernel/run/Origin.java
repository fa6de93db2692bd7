package headrace.kernel.run;

import headrace.kernel.state.Fingerprint;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskFailureListener;

/**
 * The record that the row at hand was made of, so that what is written of it can carry an id by
 * which repeats are told, and that the time it took and a failure can be told.
 *
 * <p>A task works row by row in one thread: from the decoder through the user's functions to the
 * encoder, or from an operator that gives rows. So whoever brings a row forth says here where it
 * came from, and no column that a `select` could lose has to travel along. What an operator makes
 * of many records has the origin of the record that caused it; what it tells because time has
 * passed, that of its key and time; and the time of the record it takes, or the mean of those that
 * it takes together.
 *
 * <p>A failure of the task is told the record at hand ({@link At}), and carries it to the driver.
 */
public final class Origin {
  public static final long NO_TIME = Long.MIN_VALUE;
  private static final String BY_CONTENT = "=";
  private static final String CAUSED = ">";
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
  private String before;
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
  public static Origin current() {
    TaskContext context = TaskContext.get();
    long task = context == null ? -1 : context.taskAttemptId();
    Origin known = CURRENT.get();
    if (known == null || known.task != task) {
      Origin fresh = known = new Origin(task);
      CURRENT.set(fresh);
      if (context != null)
        context.addTaskFailureListener((TaskFailureListener) (failed, error) -> fresh.tell(error));
    }
    return known;
  }

  /** That of the task that this thread works on, to be given back with {@link #resume}. */
  public static Origin paused() {
    return CURRENT.get();
  }

  /** Goes on with a task that was {@link #paused}; one thread may work on several in turn. */
  public static void resume(Origin origin) {
    CURRENT.set(origin);
  }

  /** A record as a branch of the query reads it (`Branches`), and its time in milliseconds. */
  @SuppressWarnings("ReferenceEquality") // the reader of a partition has one text for its topic
  public void set(String topic, int partition, int branch, long offset, long time) {
    if (this.topic != topic || this.partition != partition || this.branch != branch) {
      if (this.topic != null) before = task();
      name = null;
    }
    this.topic = topic;
    this.partition = partition;
    this.branch = branch;
    this.offset = offset;
    this.time = time;
    text = null;
    sent = written = 0;
  }

  /**
   * What {@link #text} and {@link #time} were where the row came from; of one record there may be
   * several in a row.
   */
  public void set(String text, long time) {
    if (text == null || !text.equals(this.text)) sent = written = 0;
    this.text = text;
    this.time = time;
    if (topic != null) name = null;
    topic = null;
  }

  /** The record's time in milliseconds, or {@link #NO_TIME}. */
  public long time() {
    return time;
  }

  /**
   * How far the clock of the operator is that gives the rows, in microseconds, or {@link #NO_TIME}.
   */
  public long reached() {
    return reached;
  }

  /**
   * The same for whoever gets several rows for one that is given, and so does not know the last.
   */
  public long passed() {
    return passed;
  }

  public void reached(long clock) {
    passed = reached = clock;
    reaching(clock);
  }

  /**
   * How far the clock is when all rows that are given next were passed on. The last of them brings
   * it: with an earlier one the others would be late for whoever takes them, and after the last it
   * may be long until anybody hears of it.
   */
  public void reaching(long clock) {
    reaching = clock;
    clocked = true;
  }

  /** Whether an operator with a clock gives the rows. */
  public boolean isClocked() {
    return clocked;
  }

  /** A number that the row at hand shares with those that an operator gave at once with it. */
  public long bundle() {
    return bundle;
  }

  /** How many they are. */
  public int bundled() {
    return bundled;
  }

  private void tell(Throwable error) {
    String place = text() == null ? "" : place(text).split(CAUSED, 2)[0];
    if (!place.isEmpty()) error.addSuppressed(new At(place));
  }

  /** What of a {@link #text} says where the row came from; empty when nothing does. */
  public static String place(String text) {
    int content = text.indexOf(BY_CONTENT);
    return content < 0 ? text : text.substring(0, content);
  }

  /** What of a {@link #text} is the same each time the row is made. */
  public static String identity(String text) {
    int content = text.indexOf(BY_CONTENT);
    return content < 0 ? text : text.substring(content);
  }

  /**
   * The record that the row at hand was made of, when a task failed with this; null when nobody has
   * told.
   */
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

  /**
   * The {@link #text} to go with the row to another task. Of several rows that are made of a record
   * each has its own.
   */
  public String next() {
    String of = told();
    int number = sent++;
    return of == null || number == 0 ? of : of + "/" + number;
  }

  /**
   * What the row at hand is called when it is written by a query, the same each time it is made;
   * null when it has no name.
   */
  public String id(String query) {
    String of = told();
    return of == null ? null : query + ":" + identity(of) + "#" + written++;
  }

  /**
   * The {@link #text} of what an operator gives because of a record, though it was made of others,
   * too.
   */
  public static String caused(String text, String operator) {
    return text == null ? null : text + CAUSED + operator;
  }

  /**
   * The {@link #text} of what is told once for a key and a time, whichever records it was made of.
   */
  public static String content(String operator, byte[] key, long at) {
    ByteBuffer digest = Fingerprint.digest(key);
    return content(operator, digest.getLong(), digest.getLong(), at);
  }

  /** The same where the front of the key's {@link Fingerprint} is known. */
  public static String content(String operator, long high, long low, long at) {
    HexFormat hex = HexFormat.of();
    return BY_CONTENT + operator + "-" + hex.toHexDigits(high) + hex.toHexDigits(low) + "@" + at;
  }

  /** What is of this name in a branch of a query; in the first one it is the name. */
  public static String inBranch(String name, int branch) {
    return branch == 0 ? name : name + "~" + branch;
  }

  /** The record's position as text, and the branch of the query that read it. */
  private String told() {
    return topic == null ? text() : inBranch(text(), branch);
  }

  /** The record's position as text; null when there is none. */
  String text() {
    if (text == null && topic != null) text = topic + "[" + partition + "]@" + offset;
    return text;
  }

  /**
   * What the task that has the row at hand is called in a batch, however often the batch is run:
   * the partition that it reads and the branch of the query, since Spark may number those in
   * another order the next time; behind a shuffle its number, which goes by key. The same object as
   * long as it is the same.
   */
  public String task() {
    if (name == null && topic == null) name = String.valueOf(TaskContext.getPartitionId());
    if (name == null) name = inBranch(topic + "-" + partition, branch);
    return name;
  }

  /**
   * What {@link #task} was before this task came to read another partition; null as long as there
   * was one.
   */
  public String before() {
    return before;
  }

  /**
   * The number that the row at hand of a live view shares with another, which came before it and
   * takes its place, or comes after it and is replaced; 0 when there is none. All rows of the pairs
   * of a {@link #group} come before those of the next group.
   */
  public long pair() {
    return pair;
  }

  public static long group(long pair) {
    return pair >>> GROUP;
  }

  /** The first number of the group after that of this pair. */
  public static long nextGroup(long pair) {
    return (group(pair) + 1) << GROUP;
  }

  /**
   * Rows that come forth one by one, each with its time and, unless `origins` is null, its origin
   * said first; at the end, when all were passed on, `done`.
   */
  public static <T> Iterator<T> telling(
      List<T> rows, List<String> origins, Times times, boolean live, Runnable done) {
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
          // In exact mode a Python function may have read them all before the first is written,
          // which is timed like the last.
          origin.set(null, live ? NO_TIME : origin.time);
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
  public static <T> Iterator<T> pairing(Iterator<T> rows, List<Long> pairs) {
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
  public static final class Times {
    private long[] values = new long[16];
    private int size;

    public void add(long time) {
      if (size == values.length) values = Arrays.copyOf(values, 2 * size);
      values[size++] = time;
    }

    long get(int row) {
      return values[row];
    }
  }

  /** The mean of record times. */
  public static final class Mean {
    private long base;
    private long sum;
    private long count;

    public void add(long time) {
      if (time == NO_TIME) return;
      if (count++ == 0) base = time;
      sum += time - base;
    }

    public long value() {
      return count == 0 ? NO_TIME : base + sum / count;
    }
  }

  /** {@link #next} as a method of a plan. */
  public static final class Text implements Serializable {
    private static final long serialVersionUID = 1L;
    private transient Origin origin;

    /** Called by Spark for each row. */
    public UTF8String next() {
      if (origin == null) origin = current();
      return UTF8String.fromString(origin.next());
    }
  }

  /**
   * The partition that a record without a key is written to, of so many: that of the row's origin.
   * So what is made of one partition, or behind a shuffle of one key, stays together and in order,
   * and a batch that is run again is cut alike.
   */
  public static final class Partition implements Serializable {
    private static final long serialVersionUID = 1L;

    private final int partitions;
    private transient Origin origin;

    public Partition(int partitions) {
      this.partitions = partitions;
    }

    /** Called by Spark for each row. */
    public int next() {
      if (origin == null) origin = current();
      return (origin.topic == null ? TaskContext.getPartitionId() : origin.partition) % partitions;
    }
  }
}

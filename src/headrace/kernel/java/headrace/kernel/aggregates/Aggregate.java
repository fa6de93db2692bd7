package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.SortedBag;
import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * One aggregate function over the rows of a group; operators/aggregate.py says what each means.
 *
 * <p>Rows may come in any order, and groups that were gathered apart can be put together, so the
 * result must not depend on either. `lane` and `cell` are where its part of an {@link Accumulator}
 * begins; a new accumulator is all zeros and nulls.
 */
abstract class Aggregate implements Serializable {
  private static final long serialVersionUID = 1L;
  int lane;
  int cell;

  /** How many lanes it takes; they are written and read for it. */
  int lanes() {
    return 0;
  }

  /** How many cells it takes. */
  int cells() {
    return 0;
  }

  /** Takes a row in whose event time is `at`, in microseconds. */
  abstract void add(Accumulator to, InternalRow row, long at);

  /** Whether a row that was taken in can be taken out again, exactly. */
  boolean takesOut() {
    return false;
  }

  /** Takes a row out that was taken in. */
  void remove(Accumulator from, InternalRow row) {
    throw new UnsupportedOperationException();
  }

  /** Takes in what another accumulator has gathered, which stays as it is. */
  abstract void merge(Accumulator to, Accumulator from);

  /** The value so far, in Spark's internal form. */
  abstract Object result(Accumulator of);

  /** Whether its cells hold nothing; only of one that takes rows out. */
  boolean isClear(Accumulator of) {
    return true;
  }

  /** Says where the pages of its cells are, if they have some. */
  void attach(Accumulator of, SortedBag.Pages pages) {}

  /** Puts those that have changed there. */
  void save(Accumulator of, SortedBag.Pages pages) {}

  /** What lies in the pages. */
  SortedBag.Items<?> items() {
    throw new UnsupportedOperationException();
  }

  /** Writes its cells. */
  void write(Accumulator from, ByteSink out) {}

  /** Reads its cells. */
  void read(Accumulator to, ByteBuffer in) {}

  /** What is thrown when a sum has become too large for its type. */
  static ArithmeticException overflow(String name, String type) {
    return new ArithmeticException(
        "the aggregate "
            + name
            + " does not fit "
            + type
            + " any more; sum a wider type, such as cast(… as decimal(38, 0))");
  }
}

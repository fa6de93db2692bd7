package headrace.kernel.operators;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.SortedBag;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.math.Ordering;

/**
 * The order of the rows of a ranking: the greatest score first, one that is null last; of equals,
 * by columns.
 */
final class Ranking implements SortedBag.Items<Ranking.Entry> {
  private final int score;
  private final DataType type;
  private final boolean whole;
  private final Ordering<Object> scores;
  private final Ordering<Object> columns;
  private final UnsafeRow one;
  private final UnsafeRow other;

  /**
   * A row, which is the end of these bytes, and its score, which is `number` where it is a whole
   * number.
   */
  static final class Entry {
    final byte[] bytes;
    private final int from;
    private final boolean known;
    private final long number;
    private final Object score;

    private Entry(byte[] bytes, int from, boolean known, long number, Object score) {
      this.bytes = bytes;
      this.from = from;
      this.known = known;
      this.number = number;
      this.score = score;
    }

    void read(UnsafeRow row) {
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + from, bytes.length - from);
    }
  }

  @SuppressWarnings("unchecked")
  Ranking(Operator operator) {
    score = operator.input.size();
    type = operator.rows.fields()[score].dataType();
    whole = Value.isLong(type);
    scores = (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(type);
    columns =
        (Ordering<Object>)
            (Ordering<?>) TypeUtils.getInterpretedOrdering(new StructType(operator.input.fields()));
    one = new UnsafeRow(operator.rows.size());
    other = new UnsafeRow(operator.rows.size());
  }

  /** The entry of a row, which is kept as the end of these bytes. */
  Entry entry(UnsafeRow row, byte[] bytes, int from) {
    if (row.isNullAt(score)) return new Entry(bytes, from, false, 0, null);
    return whole
        ? new Entry(bytes, from, true, Value.asLong(row, score, type), null)
        : new Entry(bytes, from, true, 0, Value.of(row, score, type));
  }

  /**
   * Whether the score of a row is behind that of an entry, so that it need not be looked at
   * further.
   */
  boolean isBehind(UnsafeRow row, Entry entry) {
    if (row.isNullAt(score)) return entry.known;
    if (!entry.known) return false;
    return whole
        ? Value.asLong(row, score, type) < entry.number
        : scores.compare(Value.of(row, score, type), entry.score) < 0;
  }

  private int scores(Entry a, Entry b) {
    if (a.known != b.known) return Boolean.compare(b.known, a.known);
    return !a.known
        ? 0
        : whole ? Long.compare(b.number, a.number) : scores.compare(b.score, a.score);
  }

  @Override
  public int compare(Entry a, Entry b) {
    if (a == b) return 0;
    int compared = scores(a, b);
    if (compared != 0
        || Arrays.equals(a.bytes, a.from, a.bytes.length, b.bytes, b.from, b.bytes.length))
      return compared;
    a.read(one);
    b.read(other);
    return columns.compare(one, other);
  }

  @Override
  public void write(Entry entry, ByteSink out) {
    out.putInt(entry.bytes.length - entry.from)
        .put(entry.bytes, entry.from, entry.bytes.length - entry.from);
  }

  @Override
  public Entry read(ByteBuffer in) {
    byte[] row = Value.sized(in);
    one.pointTo(row, row.length);
    return entry(one, row, 0);
  }
}

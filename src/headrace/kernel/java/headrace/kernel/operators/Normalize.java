package headrace.kernel.operators;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rows put and deleted by key, as changes: what was there is taken back before what comes;
 * operators/table.py says more.
 *
 * <p>State: the row of each key. A record counts when its offset is greater than that of the last
 * one of its key.
 */
final class Normalize extends ShardProcessor<Normalize.Version> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("normalize", 3, Options.class, Normalize::new);
  private static final long ALL = 0;
  private static final UTF8String DELETE = UTF8String.fromString("-");

  private final int sign;
  private final int offset;
  private transient LinkedHashMap<Key, Touched> touched;
  private transient UnsafeRow reading;

  /** A row, without its sign, and the offset of its record. */
  record Version(byte[] row, long offset) {}

  /** A key that the call at hand has changed: the row before, and the last record. */
  private static final class Touched {
    final byte[] before;
    long offset;

    Touched(Version before) {
      this.before = before == null ? null : before.row;
      this.offset = before == null ? Long.MIN_VALUE : before.offset;
    }
  }

  /** It has none. */
  record Options() implements OperatorOptions {}

  private Normalize(Operator operator, Options options) {
    super(operator);
    this.sign = operator.input.size();
    this.offset = sign + 1;
  }

  @Override
  ShardStore.Codec<Version> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Version version, ByteSink out) {
        out.putLong(version.offset).putSized(version.row);
      }

      @Override
      public Version read(ByteBuffer in) {
        long offset = in.getLong();
        return new Version(Value.sized(in), offset);
      }
    };
  }

  @Override
  void opened() {
    touched = new LinkedHashMap<>();
    reading = new UnsafeRow(operator.rows.size());
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    Touched change = touched.get(key);
    if (change == null) touched.put(key, change = new Touched(store.get(ALL, key)));
    long number = row.getLong(offset);
    if (number <= change.offset) return;
    change.offset = number;
    if (DELETE.equals(row.getUTF8String(sign))) {
      store.remove(ALL, key);
      return;
    }
    row.setNullAt(sign); // so that equal rows have equal bytes
    row.setNullAt(offset);
    store.put(ALL, key, new Version(row.getBytes().clone(), number));
  }

  @Override
  boolean settle() {
    Map.Entry<Key, Touched> change = poll(touched);
    if (change == null) return false;
    byte[] before = change.getValue().before;
    Version after = store.get(ALL, change.getKey());
    if (before != null && after != null && Arrays.equals(before, after.row)) return true;
    replace(
        before == null ? null : values(before),
        after == null ? null : ResultRow.plus(values(after.row)));
    return true;
  }

  private Object[] values(byte[] row) {
    Object[] values = new Object[operator.output.size()];
    reading.pointTo(row, row.length);
    for (int i = 0; i < operator.input.size(); i++)
      values[i] = Value.of(reading, i, operator.input.fields()[i].dataType());
    return values;
  }
}

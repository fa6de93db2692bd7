package headrace.kernel.operators;

import headrace.kernel.state.Bag;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.PackedRow;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Changes as rows put and deleted by key: what becomes of a key in a call is told once;
 * operators/upserts.py says more.
 *
 * <p>Rows come with the key, their sign, and packed with a `+` in their last column. State: the row
 * that was told of each key, and what else is known under it.
 */
final class Upserts extends ShardProcessor<Upserts.Held> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("upserts", 3, Options.class, Upserts::new);
  private static final long ALL = 0;
  private static final UTF8String PLUS = UTF8String.fromString("+");
  private static final UTF8String MINUS = UTF8String.fromString("-");
  private static final byte[] NOTHING = {};

  private final int sign;
  private final int packed;
  private transient LinkedHashMap<Key, byte[]> touched;
  private transient UnsafeRow reading;

  /** The rows of a key: one, and others with how often they are there. */
  static final class Held {
    byte[] row;
    Bag more;

    void change(byte[] of, int times) {
      if (times < 0 && row != null && Arrays.equals(row, of)) {
        row = null;
        return;
      }
      if (more == null) more = new Bag();
      more.add(of, times);
    }

    /**
     * Chooses the row that stands for the key: of several, which cannot be in a table, the
     * greatest.
     */
    void settle() {
      if (more == null) return;
      byte[][] best = {row};
      more.each(
          (other, times) -> {
            if (times > 0 && (best[0] == null || Arrays.compareUnsigned(other, best[0]) > 0))
              best[0] = other;
          });
      if (best[0] != row) {
        if (row != null) more.add(row, 1);
        row = best[0];
        more.add(row, -1);
      }
      if (more.isEmpty()) more = null;
    }

    boolean isEmpty() {
      return row == null && more == null;
    }
  }

  /** The column that says whether a row comes or goes. */
  record Options(String sign) implements OperatorOptions {}

  private Upserts(Operator operator, Options options) {
    super(operator);
    sign = operator.input.fieldIndex(options.sign);
    packed = operator.input.fieldIndex(PackedRow.COLUMN);
  }

  @Override
  ShardStore.Codec<Held> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Held held, ByteSink out) {
        out.putSized(held.row == null ? NOTHING : held.row).put(held.more == null ? 0 : 1);
        if (held.more != null) held.more.write(out);
      }

      @Override
      public Held read(ByteBuffer in) {
        Held held = new Held();
        byte[] row = Value.sized(in);
        held.row = row.length == 0 ? null : row;
        if (in.get() != 0) held.more = Bag.read(in);
        return held;
      }
    };
  }

  @Override
  void opened() {
    touched = new LinkedHashMap<>();
    reading = new UnsafeRow(operator.output.size());
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    UTF8String change = row.getUTF8String(sign);
    byte[] bytes = row.getBinary(packed);
    boolean back = MINUS.equals(change);
    if ((!back && !PLUS.equals(change))
        || hasNull(row)) { // whoever writes the view says what is wrong with it
      give(bytes, change);
      return;
    }
    Held held = store.get(ALL, key);
    if (held == null) store.put(ALL, key, held = new Held());
    if (!touched.containsKey(key)) touched.put(key, held.row);
    held.change(bytes, back ? -1 : 1);
  }

  /** Whether a column of the key is null; those come first. */
  private boolean hasNull(UnsafeRow row) {
    for (int i = 0; i < operator.key.size(); i++) if (row.isNullAt(i)) return true;
    return false;
  }

  @Override
  boolean settle() {
    Map.Entry<Key, byte[]> change = poll(touched);
    if (change == null) return false;
    byte[] before = change.getValue();
    Held held = store.get(ALL, change.getKey());
    held.settle();
    if (held.isEmpty()) store.remove(ALL, change.getKey());
    else store.put(ALL, change.getKey(), held);
    if (Arrays.equals(before, held.row)) return true;
    if (held.row != null) give(held.row);
    else give(before, MINUS);
    return true;
  }

  private void give(byte[] row, UTF8String change) {
    Object[] values = new Object[operator.output.size()];
    reading.pointTo(row, row.length);
    for (int i = 0; i < values.length - 1; i++)
      values[i] = Value.of(reading, i, operator.output.fields()[i].dataType());
    values[values.length - 1] = change;
    emit(values);
  }
}

package headrace.kernel.operators;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The versions of the rows of a table by the time of their changes; operators/history.py says what
 * they are.
 *
 * <p>State: the changes of each key, in the order of their times. What was told of a key is
 * computed again from those that are known before the rows of a call change them.
 */
final class History extends ShardProcessor<ArrayList<History.Change>> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("history", 3, Options.class, History::new);
  private static final long ALL = 0;
  private static final UTF8String DELETE = UTF8String.fromString("-");
  private static final byte[] NOTHING = {};

  private final int columns;
  private final int sign;
  private final int offset;
  private final int time;
  private transient LinkedHashMap<Key, List<Object[]>> touched;
  private transient UnsafeRow reading;

  /**
   * What a key is from a time on: a row, or nothing (null). Of those of one time, the last record's
   * counts.
   */
  record Change(long at, long offset, byte[] row) {}

  /** It has none. */
  record Options() implements OperatorOptions {}

  private History(Operator operator, Options options) {
    super(operator);
    this.columns = operator.input.size();
    this.sign = columns;
    this.offset = columns + 1;
    this.time = columns + 2;
  }

  @Override
  ShardStore.Codec<ArrayList<Change>> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(ArrayList<Change> changes, ByteSink out) {
        out.putInt(changes.size());
        for (Change one : changes)
          out.putLong(one.at).putLong(one.offset).putSized(one.row == null ? NOTHING : one.row);
      }

      @Override
      public ArrayList<Change> read(ByteBuffer in) {
        int size = in.getInt();
        ArrayList<Change> changes = new ArrayList<>(size);
        for (int i = 0; i < size; i++) {
          long at = in.getLong(), offset = in.getLong();
          byte[] row = Value.sized(in);
          changes.add(new Change(at, offset, row.length == 0 ? null : row));
        }
        return changes;
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
    ArrayList<Change> changes = store.get(ALL, key);
    if (changes == null) changes = new ArrayList<>(1);
    if (!touched.containsKey(key)) touched.put(key, versions(changes));
    long when = row.getLong(time), number = row.getLong(offset);
    boolean deleted = DELETE.equals(row.getUTF8String(sign));
    for (int i = sign; i <= time; i++) row.setNullAt(i); // so that equal rows have equal bytes
    Change change = new Change(when, number, deleted ? null : row.getBytes().clone());
    int place = changes.size();
    while (place > 0 && changes.get(place - 1).at > when) place--;
    if (place == 0 || changes.get(place - 1).at < when) changes.add(place, change);
    else if (changes.get(place - 1).offset < number) changes.set(place - 1, change);
    store.put(ALL, key, changes);
  }

  /** The versions that the changes make; one that changes nothing makes none. */
  private List<Object[]> versions(List<Change> changes) {
    List<Object[]> versions = new ArrayList<>(changes.size());
    byte[] last = null;
    for (Change change : changes) {
      if (Arrays.equals(last, change.row)) continue;
      if (last != null) versions.get(versions.size() - 1)[columns + 1] = change.at;
      last = change.row;
      if (last != null) versions.add(version(last, change.at, versions.size() + 1));
    }
    return versions;
  }

  private Object[] version(byte[] row, long from, int number) {
    Object[] values = new Object[operator.output.size()];
    reading.pointTo(row, row.length);
    for (int i = 0; i < columns; i++)
      values[i] = Value.of(reading, i, operator.input.fields()[i].dataType());
    values[columns] = from;
    values[columns + 2] = (long) number;
    return ResultRow.plus(values);
  }

  @Override
  boolean settle() {
    Map.Entry<Key, List<Object[]>> change = poll(touched);
    if (change == null) return false;
    List<Object[]> before = change.getValue(), after = versions(store.get(ALL, change.getKey()));
    for (int i = 0; i < Math.max(before.size(), after.size()); i++) {
      Object[] old = i < before.size() ? before.get(i) : null,
          next = i < after.size() ? after.get(i) : null;
      if (!Arrays.deepEquals(old, next)) replace(old, next);
    }
    return true;
  }
}

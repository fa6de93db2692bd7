package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.time.BatchWatermark;
import java.util.Iterator;
import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Rows of a key together, with what the aggregates have gathered of those that come and go. */
final class GatheredGroups extends Gathered<GatheredGroups.Delta> {
  private final int sign;
  private LinkedHashMap<Key, Delta> groups = new LinkedHashMap<>();

  /** What comes and goes of the rows of a group. */
  static final class Delta {
    final Key of;
    final Accumulator values;
    int rows;

    Delta(Key of, Accumulator values) {
      this.of = of;
      this.values = values;
    }
  }

  /** `sign` is the column that says whether a row comes or goes, or -1 where all come. */
  GatheredGroups(Operator operator, BatchWatermark watermark, int sign, Iterator<byte[]> rows) {
    super(operator, watermark, rows);
    this.sign = sign;
  }

  @Override
  int size() {
    return groups.size();
  }

  @Override
  Iterator<Delta> empty() {
    Iterator<Delta> full = groups.values().iterator();
    groups = new LinkedHashMap<>();
    return full;
  }

  @Override
  boolean isLate(long at) {
    return false;
  }

  @Override
  void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
    Delta delta = groups.get(key);
    if (delta == null) groups.put(key, delta = new Delta(key, operator.aggregates.empty()));
    boolean back = TableAggregate.isBack(row, sign);
    if (back) operator.aggregates.remove(delta.values, row);
    else operator.aggregates.add(delta.values, row, at);
    delta.rows += back ? -1 : 1;
  }

  @Override
  byte[] message(Delta delta, long time) {
    ByteSink out = new ByteSink(64 + delta.of.bytes.length);
    out.put(Message.PARTIAL)
        .putInt(operator.shard(delta.of.hash))
        .putLong(0)
        .putSized(delta.of.bytes)
        .putInt(delta.rows);
    operator.aggregates.write(delta.values, out);
    return out.putLong(time).bytes();
  }
}

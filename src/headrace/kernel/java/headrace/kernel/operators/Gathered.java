package headrace.kernel.operators;

import headrace.kernel.meters.HotKeys;
import headrace.kernel.run.Origin;
import headrace.kernel.state.Key;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The messages of rows that are gathered in groups before they are sent, in exact mode; a row that
 * may be late stays alone, because it may have to be kept aside whole.
 */
abstract class Gathered<G> implements Iterator<byte[]> {
  private static final int MOST_GROUPS = 200_000;
  private static final int MOST_ROWS = 1_000_000;

  final Operator operator;
  final BatchWatermark watermark;
  private final Iterator<byte[]> rows;
  private final UnsafeRow row;
  private final HotKeys.Sample sample;
  private Iterator<G> ready;
  private byte[] alone;
  private Origin.Mean gathering = new Origin.Mean();
  private int gathered;

  /** The time of the records in the groups that are ready. */
  private long time;

  Gathered(Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
    this.operator = operator;
    this.watermark = watermark;
    this.rows = rows;
    this.row = new UnsafeRow(operator.rows.size());
    this.sample = operator.sample();
  }

  abstract int size();

  /** Gives the groups and begins anew. */
  abstract Iterator<G> empty();

  /** Whether a row of this time may be too late. */
  abstract boolean isLate(long at);

  /** Takes a row in; `wrapped` is what is sent when it goes as it is. */
  abstract void gather(long at, Key key, UnsafeRow row, byte[] wrapped);

  /** What is sent of a group; `time` is that of the records in the groups. */
  abstract byte[] message(G group, long time);

  @Override
  public boolean hasNext() {
    while (alone == null) {
      if (ready != null && ready.hasNext()) return true;
      while (alone == null && size() < MOST_GROUPS && gathered < MOST_ROWS && rows.hasNext())
        gather(rows.next());
      if (alone == null) {
        if (size() == 0) return false;
        ready = empty();
        time = gathering.value();
        gathering = new Origin.Mean();
        gathered = 0;
      }
    }
    return true;
  }

  private void gather(byte[] wrapped) {
    long at = WrappedRow.time(wrapped);
    if (!operator.timeless && (at == Message.NO_TIME || isLate(at))) {
      alone = WrappedRow.message(wrapped, operator, 0, 0, 0, watermark.before());
      return;
    }
    WrappedRow.read(wrapped, row);
    gathered++;
    gathering.add(Message.recordTime(ByteBuffer.wrap(wrapped)));
    Key key = WrappedRow.key(wrapped);
    if (sample != null && sample.isNext()) sample.note(key);
    gather(at, key, row, wrapped);
  }

  @Override
  public byte[] next() {
    if (!hasNext()) throw new NoSuchElementException();
    if (alone == null) return message(ready.next(), time);
    byte[] message = alone;
    alone = null;
    return message;
  }
}

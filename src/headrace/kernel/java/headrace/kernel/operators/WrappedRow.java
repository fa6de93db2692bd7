package headrace.kernel.operators;

import headrace.kernel.state.Key;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** A row on its way to a shard, as {@link Message.Wrap} has written it. */
final class WrappedRow {
  private static final int KEY_SIZE = Long.BYTES;
  private static final int KEY = KEY_SIZE + Integer.BYTES;

  private WrappedRow() {}

  static long time(byte[] wrapped) {
    return ByteBuffer.wrap(wrapped).getLong(0);
  }

  static Key key(byte[] wrapped) {
    return new Key(Arrays.copyOfRange(wrapped, KEY, start(wrapped)));
  }

  /** Where the row begins, when it is wrapped without its origin. */
  static int start(byte[] wrapped) {
    return KEY + keySize(wrapped);
  }

  private static int keySize(byte[] wrapped) {
    return ByteBuffer.wrap(wrapped).getInt(KEY_SIZE);
  }

  /** Points at the row, when it is wrapped without its origin. */
  static void read(byte[] wrapped, UnsafeRow row) {
    int start = start(wrapped);
    row.pointTo(wrapped, Platform.BYTE_ARRAY_OFFSET + start, wrapped.length - start - Long.BYTES);
  }

  /** The message that takes the row to the shard of its key, with the clock of the sender. */
  static byte[] message(
      byte[] wrapped, Operator operator, int marker, int sender, int senders, long clock) {
    int shard = operator.shard(Key.hash(wrapped, KEY, keySize(wrapped)));
    byte[] out = new byte[Message.HEAD + 2 * Integer.BYTES + Long.BYTES + wrapped.length];
    ByteBuffer.wrap(out)
        .put(Message.row(marker))
        .putInt(shard)
        .putInt(sender)
        .putInt(senders)
        .putLong(clock)
        .put(wrapped);
    return out;
  }
}

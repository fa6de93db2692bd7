package headrace.kernel.operators;

import headrace.kernel.run.Origin;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * What goes from the tasks that read to a shard, as bytes: a kind, the shard, and then
 *
 * <ul>
 *   <li>{@link #ROW}: the clock of the sender, the event time, the key, where it is wanted the
 *       {@link Origin}, the row;
 *   <li>{@link #PARTIAL}: a pane, a key, how many rows of both there were, what the aggregates have
 *       gathered of them;
 *   <li>{@link #SESSION}: a key, what was gathered of rows that belong together;
 *   <li>{@link #CLOCK}: the clock of the sender;
 *   <li>{@link #PACKET}: other messages, each after its length ({@link MessagePackets}).
 * </ul>
 *
 * The clock of a sender is its number, how many senders there are, and its watermark; it is meant
 * for live mode. There the kind of a row tells its `Marker`, too. Rows, partials and sessions end
 * with the time of the record that they were made of, or the mean of several.
 */
public final class Message {
  static final byte ROW = 0;
  static final byte PARTIAL = 1;
  static final byte CLOCK = 2;
  static final byte SESSION = 3;
  static final byte PACKET = 4;
  static final int HEAD = 1 + Integer.BYTES;
  public static final long NO_TIME = Long.MIN_VALUE;
  private static final byte[] NOTHING = {};

  private static final int MARKER = 1 << 4;

  private Message() {}

  static byte row(int marker) {
    return (byte) (ROW + marker * MARKER);
  }

  static int marker(byte kind) {
    return kind / MARKER;
  }

  /** The time of the record, at the end of a message or wrapped row. */
  static long recordTime(ByteBuffer message) {
    return message.getLong(message.limit() - Long.BYTES);
  }

  static int shard(byte[] message) {
    return ByteBuffer.wrap(message).getInt(1);
  }

  /** {@link #shard} as a column. */
  public static final class Shard implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Called by Spark. */
    public int of(byte[] message) {
      return shard(message);
    }
  }

  /**
   * A row with its time and key in front: time, length of the key, key, where they are wanted
   * length and text of the origin and the {@link Origin#bundle}, row, time of its record.
   */
  public static final class Wrap implements Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType rows;
    private final StructType key;
    private final boolean origins;
    private transient Origin origin;
    private transient UnsafeProjection packRow;
    private transient UnsafeProjection packKey;

    public Wrap(StructType rows, StructType key, boolean origins) {
      this.rows = rows;
      this.key = key;
      this.origins = origins;
    }

    /** Called by Spark. */
    public byte[] wrap(InternalRow row, InternalRow keys, long at) {
      if (packRow == null) {
        packRow = UnsafeProjection.create(rows);
        packKey = UnsafeProjection.create(key);
        origin = Origin.current();
      }
      UnsafeRow packed = packRow.apply(row), name = packKey.apply(keys);
      int rowSize = packed.getSizeInBytes(), keySize = name.getSizeInBytes();
      byte[] from = origins ? origin() : NOTHING;
      byte[] out = new byte[12 + keySize + from.length + rowSize + Long.BYTES];
      ByteBuffer.wrap(out).putLong(at).putInt(keySize).position(12 + keySize).put(from);
      name.writeToMemory(out, Platform.BYTE_ARRAY_OFFSET + 12);
      packed.writeToMemory(out, Platform.BYTE_ARRAY_OFFSET + 12 + keySize + from.length);
      ByteBuffer.wrap(out).putLong(out.length - Long.BYTES, origin.time());
      return out;
    }

    private byte[] origin() {
      String text = origin.next();
      byte[] bytes = text == null ? NOTHING : text.getBytes(StandardCharsets.UTF_8);
      ByteBuffer out = ByteBuffer.allocate(2 * Integer.BYTES + Long.BYTES + bytes.length);
      return out.putInt(bytes.length)
          .put(bytes)
          .putLong(origin.bundle())
          .putInt(origin.bundled())
          .array();
    }
  }
}

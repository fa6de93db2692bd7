package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/**
 * Messages put together by shard, many to a parcel, as {@link Message#PARCEL}.
 *
 * <p>What Spark does with a row between two tasks (write it, sort it, make an object of it) costs more than most operators; of
 * a parcel it does so once. The messages to a shard stay in order. Not for live mode, where no message may wait for others.
 */
final class Parcels implements Iterator<byte[]> {
  private static final int SIZE = 1 << 16;
  private static final int FIRST = 1 << 10;

  private final Iterator<byte[]> messages;
  private final Map<Integer, ByteSink> open = new HashMap<>();
  private final ArrayDeque<byte[]> closed = new ArrayDeque<>();

  Parcels(Iterator<byte[]> messages) {
    this.messages = messages;
  }

  @Override
  public boolean hasNext() {
    while (closed.isEmpty() && messages.hasNext()) put(messages.next());
    if (closed.isEmpty()) {
      for (ByteSink parcel : open.values()) closed.add(parcel.bytes());
      open.clear();
    }
    return !closed.isEmpty();
  }

  private void put(byte[] message) {
    int shard = Message.shard(message);
    ByteSink parcel = open.get(shard);
    if (parcel == null) open.put(shard, parcel = new ByteSink(FIRST).put(Message.PARCEL).putInt(shard));
    parcel.putSized(message);
    if (parcel.size() < SIZE - message.length) return;
    closed.add(parcel.bytes());
    parcel.reset();
    parcel.put(Message.PARCEL).putInt(shard);
  }

  @Override
  public byte[] next() {
    return closed.remove();
  }

  /** The messages of a parcel, in the order in which they were put there; each only until the next is asked for. */
  static final class Opened implements Iterator<ByteBuffer> {
    private final ByteBuffer parcel;
    private int next = Byte.BYTES + Integer.BYTES;

    Opened(byte[] parcel) {
      this.parcel = ByteBuffer.wrap(parcel);
    }

    @Override
    public boolean hasNext() {
      return next < parcel.capacity();
    }

    @Override
    public ByteBuffer next() {
      parcel.clear().position(next);
      next = parcel.getInt() + parcel.position();
      return parcel.limit(next);
    }
  }
}

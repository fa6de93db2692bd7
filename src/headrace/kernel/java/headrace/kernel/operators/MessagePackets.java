package headrace.kernel.operators;

import headrace.kernel.state.ByteSink;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/**
 * Messages put together by shard, many to a packet, as {@link Message#PACKET}.
 *
 * <p>What Spark does with a row between two tasks (write it, sort it, make an object of it) costs
 * more than most operators; of a packet it does so once. The messages to a shard stay in order. Not
 * for live mode, where no message may wait for others.
 */
final class MessagePackets implements Iterator<byte[]> {
  private static final int SIZE = 1 << 16;
  private static final int FIRST = 1 << 10;

  private final Iterator<byte[]> messages;
  private final Map<Integer, ByteSink> open = new HashMap<>();
  private final ArrayDeque<byte[]> closed = new ArrayDeque<>();

  MessagePackets(Iterator<byte[]> messages) {
    this.messages = messages;
  }

  @Override
  public boolean hasNext() {
    while (closed.isEmpty() && messages.hasNext()) put(messages.next());
    if (closed.isEmpty()) {
      for (ByteSink packet : open.values()) closed.add(packet.bytes());
      open.clear();
    }
    return !closed.isEmpty();
  }

  private void put(byte[] message) {
    int shard = Message.shard(message);
    ByteSink packet = open.get(shard);
    if (packet == null)
      open.put(shard, packet = new ByteSink(FIRST).put(Message.PACKET).putInt(shard));
    packet.putSized(message);
    if (packet.size() < SIZE - message.length) return;
    closed.add(packet.bytes());
    packet.reset();
    packet.put(Message.PACKET).putInt(shard);
  }

  @Override
  public byte[] next() {
    return closed.remove();
  }

  /**
   * The messages of a packet, in the order in which they were put there; each only until the next
   * is asked for.
   */
  static final class Opened implements Iterator<ByteBuffer> {
    private final ByteBuffer packet;
    private int next = Byte.BYTES + Integer.BYTES;

    Opened(byte[] packet) {
      this.packet = ByteBuffer.wrap(packet);
    }

    @Override
    public boolean hasNext() {
      return next < packet.capacity();
    }

    @Override
    public ByteBuffer next() {
      packet.clear().position(next);
      next = packet.getInt() + packet.position();
      return packet.limit(next);
    }
  }
}

package headrace.kernel.state;

import java.util.Arrays;

/** Bytes that grow while they are written; read back with a ByteBuffer. */
public final class ByteSink {
  private static final int MOST = Integer.MAX_VALUE - 8;

  private byte[] bytes;
  private int size;

  public ByteSink(int capacity) {
    bytes = new byte[Math.max(16, capacity)];
  }

  public int size() {
    return size;
  }

  public void reset() {
    size = 0;
  }

  private void room(int more) {
    int least = Math.addExact(size, more);
    if (least > bytes.length)
      bytes = Arrays.copyOf(bytes, (int) Math.max(least, Math.min(2L * bytes.length, MOST)));
  }

  public ByteSink put(int value) {
    room(1);
    bytes[size++] = (byte) value;
    return this;
  }

  public ByteSink putInt(int value) {
    room(4);
    for (int shift = 24; shift >= 0; shift -= 8) bytes[size++] = (byte) (value >>> shift);
    return this;
  }

  /** Sets four bytes that are there already. */
  void setInt(int at, int value) {
    for (int i = 0; i < 4; i++) bytes[at + i] = (byte) (value >>> (24 - 8 * i));
  }

  public ByteSink putLong(long value) {
    return putInt((int) (value >>> 32)).putInt((int) value);
  }

  public ByteSink put(byte[] from) {
    return put(from, 0, from.length);
  }

  public ByteSink put(byte[] from, int start, int length) {
    room(length);
    System.arraycopy(from, start, bytes, size, length);
    size += length;
    return this;
  }

  /** The length, then the bytes. */
  public ByteSink putSized(byte[] from) {
    return putInt(from.length).put(from);
  }

  public byte[] bytes() {
    return Arrays.copyOf(bytes, size);
  }
}

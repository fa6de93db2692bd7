package headrace.kernel.state;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/** The key of a group: the bytes of its row. */
public final class Key {
  public final byte[] bytes;
  public final int hash;

  public Key(byte[] bytes) {
    this.bytes = bytes;
    this.hash = hash(bytes, 0, bytes.length);
  }

  /** Part of the layout of the state: it says in which shard and bucket a key is. */
  public static int hash(byte[] bytes, int from, int length) {
    return Murmur3_x86_32.hashUnsafeBytes2(
        bytes, Platform.BYTE_ARRAY_OFFSET + from, length, 0x68616365);
  }

  @Override
  public int hashCode() {
    return hash;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Key key && key.hash == hash && Arrays.equals(key.bytes, bytes);
  }
}

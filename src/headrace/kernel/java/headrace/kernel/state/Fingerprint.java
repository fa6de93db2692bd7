package headrace.kernel.state;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The identity of a key in 128 bits, and the bucket its state is kept in.
 *
 * <p>State for each key costs several store operations an event; state for a bucket of keys costs a
 * fraction of one. The bits are the front of a SHA-256, so that nobody can choose a key that is
 * taken for another one, and two keys of a trillion meet by chance once in 10^14 such streams. A
 * key with a null has no identity: its bits are null and its bucket follows its time, so that such
 * rows spread.
 */
public final class Fingerprint implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Part of the layout of the state: another number of buckets is another state. */
  static final int BUCKETS = 4096;

  public static final StructType SCHEMA =
      new StructType()
          .add("bucket", DataTypes.IntegerType, false)
          .add("high", DataTypes.LongType)
          .add("low", DataTypes.LongType);

  private final StructType key;
  private transient UnsafeProjection projection;
  private transient MessageDigest digest;

  /** Of keys with these columns. */
  public Fingerprint(StructType key) {
    this.key = key;
  }

  /** The digest of a key's bytes. */
  public static ByteBuffer digest(byte[] key) {
    return ByteBuffer.wrap(sha().digest(key));
  }

  private static MessageDigest sha() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Called by Spark. */
  public InternalRow of(InternalRow row, long at) {
    if (projection == null) {
      projection = UnsafeProjection.create(key);
      digest = sha();
    }
    UnsafeRow bytes = projection.apply(row);
    if (bytes.anyNull())
      return new GenericInternalRow(new Object[] {Long.hashCode(at) & BUCKETS - 1, null, null});
    ByteBuffer hash = ByteBuffer.wrap(digest.digest(bytes.getBytes()));
    long high = hash.getLong();
    return new GenericInternalRow(new Object[] {(int) (high >>> 52), high, hash.getLong()});
  }
}

package headrace.kernel.state;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Single values of Spark's plain types, and structs of them, in its internal form: out of a row, to
 * bytes and back.
 */
public final class Value {
  private Value() {}

  /** The value of a field, safe to keep, or null. */
  public static Object of(InternalRow row, int field, DataType type) {
    if (row.isNullAt(field)) return null;
    if (type instanceof StringType) return row.getUTF8String(field).clone();
    if (type instanceof StructType struct) return row.getStruct(field, struct.size()).copy();
    if (type instanceof DecimalType decimal)
      return row.getDecimal(field, decimal.precision(), decimal.scale()).clone();
    return row.get(field, type);
  }

  /** Whether {@link #asLong} holds it without loss and in its order. */
  public static boolean isLong(DataType type) {
    return type instanceof BooleanType
        || type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof DateType
        || type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }

  public static long asLong(InternalRow row, int field, DataType type) {
    if (type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType) return row.getLong(field);
    if (type instanceof IntegerType || type instanceof DateType) return row.getInt(field);
    if (type instanceof ShortType) return row.getShort(field);
    if (type instanceof ByteType) return row.getByte(field);
    return row.getBoolean(field) ? 1 : 0;
  }

  public static Object fromLong(long value, DataType type) {
    if (type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType) return value;
    if (type instanceof IntegerType || type instanceof DateType) return (int) value;
    if (type instanceof ShortType) return (short) value;
    if (type instanceof ByteType) return (byte) value;
    return value != 0;
  }

  public static void write(ByteSink out, Object value, DataType type) {
    if (value == null) {
      out.put(0);
      return;
    }
    out.put(1);
    if (type instanceof StringType) out.putSized(((UTF8String) value).getBytes());
    else if (type instanceof BinaryType) out.putSized((byte[]) value);
    else if (type instanceof StructType) out.putSized(((UnsafeRow) value).getBytes());
    else if (type instanceof DecimalType)
      out.putSized(((Decimal) value).toJavaBigDecimal().unscaledValue().toByteArray());
    else if (type instanceof DoubleType) out.putLong(Double.doubleToRawLongBits((Double) value));
    else if (type instanceof FloatType) out.putInt(Float.floatToRawIntBits((Float) value));
    else if (type instanceof BooleanType) out.putLong((Boolean) value ? 1 : 0);
    else out.putLong(((Number) value).longValue());
  }

  public static Object read(ByteBuffer in, DataType type) {
    if (in.get() == 0) return null;
    if (type instanceof StringType) return UTF8String.fromBytes(sized(in));
    if (type instanceof BinaryType) return sized(in);
    if (type instanceof StructType struct) {
      byte[] bytes = sized(in);
      UnsafeRow row = new UnsafeRow(struct.size());
      row.pointTo(bytes, bytes.length);
      return row;
    }
    if (type instanceof DecimalType decimal) {
      BigDecimal exact = new BigDecimal(new BigInteger(sized(in)), decimal.scale());
      return Decimal.apply(exact, decimal.precision(), decimal.scale());
    }
    if (type instanceof DoubleType) return Double.longBitsToDouble(in.getLong());
    if (type instanceof FloatType) return Float.intBitsToFloat(in.getInt());
    return fromLong(in.getLong(), type);
  }

  public static byte[] sized(ByteBuffer in) {
    byte[] bytes = new byte[in.getInt()];
    in.get(bytes);
    return bytes;
  }
}

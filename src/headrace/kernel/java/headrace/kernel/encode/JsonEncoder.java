package headrace.kernel.encode;

import headrace.kernel.time.Timestamps;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A row as JSON that `JsonDecoder` reads back to the same row, except that a null field is left
 * out.
 *
 * <p>Timestamps have six digits of fraction and a Z, decimals are exact numbers, binary is base64,
 * and the doubles that JSON lacks are the strings NaN, Infinity and -Infinity. Text is written byte
 * by byte as Python's writers of the log write it, because keys are compared as bytes. Bytes in a
 * string that are not UTF-8 become U+FFFD.
 *
 * <p>Limit: dates and timestamps before the year 1 or after 9999 are written, but the decoder
 * refuses them. Not safe for use by several threads at once.
 */
public final class JsonEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

  private static final byte[] SHORT = new byte[0x20];

  static {
    SHORT['\b'] = 'b';
    SHORT['\f'] = 'f';
    SHORT['\n'] = 'n';
    SHORT['\r'] = 'r';
    SHORT['\t'] = 't';
  }

  private final StructType schema;
  private transient byte[] buffer;
  private transient int size;
  private transient StringBuilder scratch;

  public JsonEncoder(StructType schema) {
    this.schema = schema;
    check(schema);
  }

  private static void check(DataType type) {
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) check(field.dataType());
    } else if (type instanceof ArrayType array) {
      check(array.elementType());
    } else if (type instanceof MapType map && map.keyType() instanceof StringType) {
      check(map.valueType());
    } else if (!(type instanceof StringType
        || type instanceof LongType
        || type instanceof IntegerType
        || type instanceof ShortType
        || type instanceof ByteType
        || type instanceof DoubleType
        || type instanceof FloatType
        || type instanceof BooleanType
        || type instanceof DecimalType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType
        || type instanceof BinaryType)) {
      throw new IllegalArgumentException("JSON cannot hold the type " + type.catalogString());
    }
  }

  public byte[] encode(InternalRow row) {
    if (buffer == null) {
      buffer = new byte[512];
      scratch = new StringBuilder();
    }
    size = 0;
    object(row, schema);
    return Arrays.copyOf(buffer, size);
  }

  private void object(InternalRow row, StructType type) {
    put('{');
    StructField[] fields = type.fields();
    boolean first = true;
    for (int i = 0; i < fields.length; i++) {
      if (row.isNullAt(i)) continue;
      if (!first) put(',');
      first = false;
      text(UTF8String.fromString(fields[i].name()));
      put(':');
      value(row, i, fields[i].dataType());
    }
    put('}');
  }

  private void value(SpecializedGetters row, int i, DataType type) {
    if (type instanceof StringType) text(row.getUTF8String(i));
    else if (type instanceof LongType) ascii(Long.toString(row.getLong(i)));
    else if (type instanceof IntegerType) ascii(Integer.toString(row.getInt(i)));
    else if (type instanceof DoubleType) real(row.getDouble(i), Double.toString(row.getDouble(i)));
    else if (type instanceof FloatType) real(row.getFloat(i), Float.toString(row.getFloat(i)));
    else if (type instanceof BooleanType) ascii(row.getBoolean(i) ? "true" : "false");
    else if (type instanceof ShortType) ascii(Short.toString(row.getShort(i)));
    else if (type instanceof ByteType) ascii(Byte.toString(row.getByte(i)));
    else if (type instanceof DecimalType d)
      ascii(row.getDecimal(i, d.precision(), d.scale()).toJavaBigDecimal().toPlainString());
    else if (type instanceof DateType) quoted(LocalDate.ofEpochDay(row.getInt(i)).toString());
    else if (type instanceof TimestampType) timestamp(row.getLong(i), true);
    else if (type instanceof TimestampNTZType) timestamp(row.getLong(i), false);
    else if (type instanceof BinaryType)
      quoted(Base64.getEncoder().encodeToString(row.getBinary(i)));
    else if (type instanceof StructType struct) object(row.getStruct(i, struct.size()), struct);
    else if (type instanceof ArrayType array) array(row.getArray(i), array.elementType());
    else map(row.getMap(i), (MapType) type);
  }

  private void array(ArrayData values, DataType type) {
    put('[');
    for (int i = 0, n = values.numElements(); i < n; i++) {
      if (i > 0) put(',');
      if (values.isNullAt(i)) ascii("null");
      else value(values, i, type);
    }
    put(']');
  }

  private void map(MapData entries, MapType type) {
    put('{');
    ArrayData keys = entries.keyArray(), values = entries.valueArray();
    for (int i = 0, n = entries.numElements(); i < n; i++) {
      if (i > 0) put(',');
      text(keys.getUTF8String(i));
      put(':');
      if (values.isNullAt(i)) ascii("null");
      else value(values, i, type.valueType());
    }
    put('}');
  }

  private void real(double value, String text) {
    if (Double.isNaN(value) || Double.isInfinite(value)) quoted(text);
    else ascii(text);
  }

  private void timestamp(long micros, boolean zoned) {
    scratch.setLength(0);
    Timestamps.write(scratch, micros, zoned);
    quoted(scratch);
  }

  private void quoted(CharSequence ascii) {
    put('"');
    ascii(ascii);
    put('"');
  }

  private void ascii(CharSequence text) {
    int n = text.length();
    room(n);
    for (int i = 0; i < n; i++) buffer[size++] = (byte) text.charAt(i);
  }

  private void text(UTF8String text) {
    byte[] utf8 = text.getBytes();
    room(utf8.length * 6 + 2);
    int start = size, bits = 0;
    buffer[size++] = '"';
    for (byte c : utf8) {
      bits |= c;
      if (c == '"' || c == '\\') {
        buffer[size++] = '\\';
        buffer[size++] = c;
      } else if (c >= 0 && c < 0x20) {
        escape(c);
      } else {
        buffer[size++] = c;
      }
    }
    buffer[size++] = '"';
    if (bits < 0 && !text.isValid()) {
      size = start;
      text(text.makeValid());
    }
  }

  private void escape(byte control) {
    buffer[size++] = '\\';
    byte letter = SHORT[control];
    if (letter != 0) {
      buffer[size++] = letter;
      return;
    }
    buffer[size++] = 'u';
    buffer[size++] = '0';
    buffer[size++] = '0';
    buffer[size++] = HEX[control >> 4];
    buffer[size++] = HEX[control & 15];
  }

  private void put(char c) {
    room(1);
    buffer[size++] = (byte) c;
  }

  private void room(int more) {
    if (size + more > buffer.length)
      buffer = Arrays.copyOf(buffer, Math.max(size + more, buffer.length * 2));
  }
}

package headrace.kernel.decode;

import headrace.kernel.time.Timestamps;
import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigDecimal;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
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
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Strict JSON (RFC 8259) to a row of a declared schema, straight from the bytes.
 *
 * <p>The record must be one object in valid UTF-8 with nothing after it. A field that is not
 * declared is skipped, but its syntax is checked, and that escapes leave no half of a surrogate
 * pair. A declared field that is missing or null is null, or refused when it is NOT NULL. Nothing
 * is coerced: a number is not a string, 1.0 is not an int, a value that does not fit its type is
 * refused, and so are a field that occurs twice and a timestamp without a time zone. What is
 * refused throws {@link Refused} with a reason that names the field, the type and the place.
 *
 * <p>A float or double is the nearest to its text, or one of the strings NaN, Infinity and
 * -Infinity; one that is too big is refused. A decimal must be exact, in at most 100 characters.
 * Binary is base64, with or without padding. Dates are {@code 2026-11-15}; timestamps as {@link
 * Timestamps} says; both from the year 1 to 9999.
 *
 * <p>Strings without escapes are views of the record's bytes; Spark copies them when it writes the
 * row. Not safe for use by several threads at once.
 */
public final class JsonDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  /** How deeply a value that is not declared may nest. */
  public static final int MAX_DEPTH = 500;

  private static final VarHandle WORDS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final double[] POWERS_OF_TEN = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22
  };

  /** Why a record does not fit. Carries no stack trace: bad records can be many. */
  public static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String reason) {
      super(reason, null, false, false);
    }
  }

  private enum Kind {
    BOOLEAN,
    BYTE,
    SHORT,
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    DECIMAL,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ARRAY,
    MAP,
    STRUCT
  }

  /** A declared type, prepared for decoding. */
  private static final class Type implements Serializable {
    private static final long serialVersionUID = 1L;
    final Kind kind;
    final String name;
    int precision;
    int scale;
    Type element;
    boolean elementNullable;
    Struct struct;

    Type(DataType type) {
      name = type.catalogString();
      if (type instanceof BooleanType) kind = Kind.BOOLEAN;
      else if (type instanceof ByteType) kind = Kind.BYTE;
      else if (type instanceof ShortType) kind = Kind.SHORT;
      else if (type instanceof IntegerType) kind = Kind.INT;
      else if (type instanceof LongType) kind = Kind.LONG;
      else if (type instanceof FloatType) kind = Kind.FLOAT;
      else if (type instanceof DoubleType) kind = Kind.DOUBLE;
      else if (type instanceof StringType) kind = Kind.STRING;
      else if (type instanceof BinaryType) kind = Kind.BINARY;
      else if (type instanceof DateType) kind = Kind.DATE;
      else if (type instanceof TimestampType) kind = Kind.TIMESTAMP;
      else if (type instanceof TimestampNTZType) kind = Kind.TIMESTAMP_NTZ;
      else if (type instanceof DecimalType decimal) {
        kind = Kind.DECIMAL;
        precision = decimal.precision();
        scale = decimal.scale();
      } else if (type instanceof ArrayType array) {
        kind = Kind.ARRAY;
        element = new Type(array.elementType());
        elementNullable = array.containsNull();
      } else if (type instanceof MapType map && map.keyType() instanceof StringType) {
        kind = Kind.MAP;
        element = new Type(map.valueType());
        elementNullable = map.valueContainsNull();
      } else if (type instanceof StructType fields) {
        kind = Kind.STRUCT;
        struct = new Struct(fields);
      } else {
        throw new IllegalArgumentException("JSON cannot hold the type " + name);
      }
    }
  }

  /** The declared fields of an object. */
  private static final class Struct implements Serializable {
    private static final long serialVersionUID = 1L;
    final byte[][] keys;
    final String[] names;
    final Type[] types;
    final boolean[] required;
    final int[] requiredFields;

    Struct(StructType schema) {
      StructField[] fields = schema.fields();
      int n = fields.length;
      keys = new byte[n][];
      names = new String[n];
      types = new Type[n];
      required = new boolean[n];
      int count = 0;
      for (int i = 0; i < n; i++) {
        names[i] = fields[i].name();
        keys[i] = names[i].getBytes(StandardCharsets.UTF_8);
        types[i] = new Type(fields[i].dataType());
        required[i] = !fields[i].nullable();
        if (required[i]) count++;
      }
      requiredFields = new int[count];
      for (int i = 0, k = 0; i < n; i++) if (required[i]) requiredFields[k++] = i;
    }

    /**
     * The index of the field whose name is these bytes, looking first where the last one was found;
     * -1 for none.
     */
    int find(byte[] b, int from, int to, int guess) {
      int n = keys.length;
      for (int i = guess; i < n; i++) if (same(keys[i], b, from, to)) return i;
      for (int i = 0; i < guess; i++) if (same(keys[i], b, from, to)) return i;
      return -1;
    }

    private static boolean same(byte[] key, byte[] b, int from, int to) {
      int n = key.length;
      if (n != to - from) return false;
      for (int i = 0; i < n; i++) if (key[i] != b[from + i]) return false;
      return true;
    }
  }

  private final Struct root;
  private final long epochMicros;
  private final boolean textDecimals;
  private transient byte[] b;
  private transient int at;
  private transient int end;

  public JsonDecoder(StructType schema) {
    this(schema, 0);
  }

  /**
   * With how many microseconds a number stands for where a timestamp is declared; 0 refuses numbers
   * there.
   */
  public JsonDecoder(StructType schema, long epochMicros) {
    this(schema, epochMicros, false);
  }

  /** With `textDecimals` a decimal may be a string, too. */
  JsonDecoder(StructType schema, long epochMicros, boolean textDecimals) {
    root = new Struct(schema);
    this.epochMicros = epochMicros;
    this.textDecimals = textDecimals;
  }

  /** The row of a record. */
  public InternalRow decode(byte[] record) throws Refused {
    if (record == null) throw new Refused("the record has no value");
    if (record.length == 0) throw new Refused("the value is empty");
    b = record;
    at = 0;
    end = record.length;
    if (!ascii(record)) Utf8.check(record);
    space();
    if (at == end) throw new Refused("the value is blank");
    if (b[at] != '{') throw new Refused("expected an object, found " + found());
    InternalRow row = object(root, "");
    space();
    if (at != end) throw new Refused("text after the object at byte " + at);
    return row;
  }

  private static boolean ascii(byte[] bytes) {
    int n = bytes.length, i = 0;
    long bits = 0;
    for (; i + 8 <= n; i += 8) bits |= (long) WORDS.get(bytes, i);
    for (; i < n; i++) bits |= bytes[i];
    return (bits & 0x8080808080808080L) == 0;
  }

  private InternalRow object(Struct struct, String path) throws Refused {
    Object[] values = new Object[struct.keys.length];
    long seen = 0;
    boolean[] seenMany = struct.keys.length > 64 ? new boolean[struct.keys.length] : null;
    int guess = 0;
    at++;
    space();
    if (at < end && b[at] == '}') {
      at++;
    } else {
      while (true) {
        if (at >= end || b[at] != '"') throw syntax("a field name in quotes");
        int from = at + 1;
        boolean escaped = string();
        int field;
        if (escaped) {
          byte[] name = unescape(from, at - 1).getBytes();
          field = struct.find(name, 0, name.length, guess);
        } else {
          field = struct.find(b, from, at - 1, guess);
        }
        space();
        if (at >= end || b[at] != ':') throw syntax("`:`");
        at++;
        space();
        if (field < 0) {
          skip();
        } else {
          if (seenMany == null ? (seen & (1L << field)) != 0 : seenMany[field])
            throw new Refused("field `" + path + struct.names[field] + "` occurs twice");
          if (seenMany == null) seen |= 1L << field;
          else seenMany[field] = true;
          values[field] =
              value(struct.types[field], struct.required[field], path, struct.names[field]);
          guess = field + 1;
        }
        space();
        if (at >= end) throw new Refused("the object is not closed");
        byte c = b[at];
        if (c == ',') {
          at++;
          space();
        } else if (c == '}') {
          at++;
          break;
        } else {
          throw syntax("`,` or `}`");
        }
      }
    }
    for (int i : struct.requiredFields)
      if (values[i] == null) throw new Refused("field `" + path + struct.names[i] + "` is missing");
    return new GenericInternalRow(values);
  }

  private Object value(Type type, boolean required, String path, String name) throws Refused {
    if (at >= end) throw new Refused("the object is not closed");
    byte c = b[at];
    if (c == 'n') {
      word("null");
      if (required) throw new Refused("field `" + path + name + "` is null");
      return null;
    }
    switch (type.kind) {
      case STRING:
        if (c != '"') throw wrong(type, path, name);
        return text();
      case LONG:
        return integer(type, path, name, Long.MIN_VALUE, Long.MAX_VALUE);
      case INT:
        return (int) integer(type, path, name, Integer.MIN_VALUE, Integer.MAX_VALUE);
      case SHORT:
        return (short) integer(type, path, name, Short.MIN_VALUE, Short.MAX_VALUE);
      case BYTE:
        return (byte) integer(type, path, name, Byte.MIN_VALUE, Byte.MAX_VALUE);
      case DOUBLE:
        return real(type, path, name);
      case FLOAT:
        {
          int from = at;
          double wide = real(type, path, name);
          float narrow = (float) wide;
          if (narrow == wide || b[from] == '"') return narrow;
          // The double may be a tie that the text is not, so a second rounding can go to the wrong
          // side.
          String text = ascii(from, at);
          narrow = Float.parseFloat(text);
          if (Float.isInfinite(narrow)) throw unfit(type, path, name, text);
          return narrow;
        }
      case BOOLEAN:
        if (c == 't') {
          word("true");
          return true;
        }
        if (c == 'f') {
          word("false");
          return false;
        }
        throw wrong(type, path, name);
      case DECIMAL:
        return decimal(type, path, name);
      case TIMESTAMP:
        if (epochMicros > 0 && c != '"') {
          return epochMicros
              * integer(
                  type, path, name, Timestamps.FIRST / epochMicros, Timestamps.LAST / epochMicros);
        }
        if (c != '"') throw wrong(type, path, name);
        return time(type, path, name);
      case TIMESTAMP_NTZ:
      case DATE:
        if (c != '"') throw wrong(type, path, name);
        return time(type, path, name);
      case BINARY:
        if (c != '"') throw wrong(type, path, name);
        try {
          return Base64.getDecoder().decode(text().toString());
        } catch (IllegalArgumentException e) {
          throw unfit(type, path, name, "text that is not base64");
        }
      case ARRAY:
        return array(type, path, name);
      case MAP:
        return map(type, path, name);
      default:
        if (c != '{') throw wrong(type, path, name);
        return object(type.struct, path + name + ".");
    }
  }

  private Object time(Type type, String path, String name) throws Refused {
    int from = at + 1;
    boolean escaped = string();
    byte[] text = escaped ? unescape(from, at - 1).getBytes() : b;
    int start = escaped ? 0 : from, stop = escaped ? text.length : at - 1;
    long value =
        type.kind == Kind.DATE
            ? Timestamps.date(text, start, stop)
            : Timestamps.parse(text, start, stop, type.kind == Kind.TIMESTAMP);
    if (value == Timestamps.UNREADABLE || value == Timestamps.NO_ZONE) {
      String shown = '"' + new String(text, start, stop - start, StandardCharsets.UTF_8) + '"';
      if (value == Timestamps.UNREADABLE) throw unfit(type, path, name, shown);
      throw new Refused(
          "field `"
              + path
              + name
              + "`: the timestamp "
              + shown
              + " has no time zone; end it with Z or an offset, or declare timestamp_ntz");
    }
    if (type.kind == Kind.DATE) return (int) value;
    return value;
  }

  private GenericArrayData array(Type type, String path, String name) throws Refused {
    if (b[at] != '[') throw wrong(type, path, name);
    ArrayList<Object> values = new ArrayList<>();
    at++;
    space();
    if (at < end && b[at] == ']') {
      at++;
      return new GenericArrayData(values.toArray());
    }
    while (true) {
      values.add(
          value(type.element, !type.elementNullable, path, name + "[" + values.size() + "]"));
      space();
      if (at >= end) throw new Refused("an array is not closed");
      if (b[at] == ']') {
        at++;
        return new GenericArrayData(values.toArray());
      }
      if (b[at] != ',') throw syntax("`,` or `]`");
      at++;
      space();
    }
  }

  private ArrayBasedMapData map(Type type, String path, String name) throws Refused {
    if (b[at] != '{') throw wrong(type, path, name);
    java.util.LinkedHashMap<UTF8String, Object> values = new java.util.LinkedHashMap<>();
    at++;
    space();
    if (at < end && b[at] == '}') {
      at++;
    } else {
      while (true) {
        if (at >= end || b[at] != '"') throw syntax("a key in quotes");
        UTF8String key = text();
        space();
        if (at >= end || b[at] != ':') throw syntax("`:`");
        at++;
        space();
        String shown = cut(key.toString());
        if (values.containsKey(key))
          throw new Refused("field `" + path + name + "`: the key `" + shown + "` occurs twice");
        values.put(key, value(type.element, !type.elementNullable, path, name + "[" + shown + "]"));
        space();
        if (at >= end) throw new Refused("the object is not closed");
        if (b[at] == '}') {
          at++;
          break;
        }
        if (b[at] != ',') throw syntax("`,` or `}`");
        at++;
        space();
      }
    }
    return new ArrayBasedMapData(
        new GenericArrayData(values.keySet().toArray()),
        new GenericArrayData(values.values().toArray()));
  }

  /** A string at the current place, as Spark's string. */
  private UTF8String text() throws Refused {
    int from = at + 1;
    return string() ? unescape(from, at - 1) : UTF8String.fromBytes(b, from, at - 1 - from);
  }

  /** Moves behind the string that begins here; true when it has escapes. */
  private boolean string() throws Refused {
    boolean escaped = false;
    byte[] bytes = b;
    int i = at + 1, n = end;
    while (i < n) {
      byte c = bytes[i++];
      if (c == '"') {
        at = i;
        return escaped;
      }
      if (c == '\\') {
        escaped = true;
        if (i >= n) break;
        byte e = bytes[i++];
        if (e == 'u') {
          char unit = unit(i);
          i += 4;
          if (Character.isSurrogate(unit)) {
            boolean whole =
                Character.isHighSurrogate(unit)
                    && i + 1 < n
                    && bytes[i] == '\\'
                    && bytes[i + 1] == 'u'
                    && Character.isLowSurrogate(unit(i + 2));
            if (!whole) throw new Refused("half of a surrogate pair at byte " + (i - 6));
            i += 6;
          }
        } else if ("\"\\/bfnrt".indexOf(e) < 0) {
          throw new Refused("a bad escape at byte " + (i - 1));
        }
      } else if (c >= 0 && c < 0x20) {
        throw new Refused("a control character in a string at byte " + (i - 1));
      }
    }
    throw new Refused("a string is not closed");
  }

  /** The four hexadecimal digits of an escape. */
  private char unit(int from) throws Refused {
    int value = 0;
    for (int i = from; i < from + 4; i++) {
      int digit = i < end ? Character.digit(b[i], 16) : -1;
      if (digit < 0) throw new Refused("a bad \\u escape at byte " + i);
      value = value << 4 | digit;
    }
    return (char) value;
  }

  /** The content of a string that {@link #string} has checked. */
  private UTF8String unescape(int from, int to) throws Refused {
    StringBuilder out = new StringBuilder(to - from);
    int plain = from;
    for (int i = from; i < to; i++) {
      if (b[i] != '\\') continue;
      out.append(new String(b, plain, i - plain, StandardCharsets.UTF_8));
      byte e = b[++i];
      switch (e) {
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'n' -> out.append('\n');
        case 'r' -> out.append('\r');
        case 't' -> out.append('\t');
        case 'u' -> {
          out.append(unit(i + 1));
          i += 4;
        }
        default -> out.append((char) e);
      }
      plain = i + 1;
    }
    out.append(new String(b, plain, to - plain, StandardCharsets.UTF_8));
    return UTF8String.fromString(out.toString());
  }

  private long integer(Type type, String path, String name, long least, long most) throws Refused {
    int from = at;
    byte[] bytes = b;
    int i = at, n = end;
    boolean negative = bytes[i] == '-';
    if (negative) i++;
    int first = i;
    long value = 0;
    boolean overflow = false;
    while (i < n) {
      int d = bytes[i] - '0';
      if (d < 0 || d > 9) break;
      if (value < Long.MIN_VALUE / 10 || value * 10 < Long.MIN_VALUE + d) overflow = true;
      value = value * 10 - d;
      i++;
    }
    if (i == first
        || (bytes[first] == '0' && i - first > 1)
        || (i < n && (bytes[i] == '.' || bytes[i] == 'e' || bytes[i] == 'E'))) {
      throw wrong(type, path, name);
    }
    at = i;
    if (!negative && value == Long.MIN_VALUE) overflow = true;
    if (!negative) value = -value;
    if (overflow || value < least || value > most) throw unfit(type, path, name, ascii(from, i));
    return value;
  }

  /**
   * Moves behind the number that begins here, whose syntax is checked; false when there is no
   * number.
   */
  private boolean number() throws Refused {
    int i = at;
    if (i < end && b[i] == '-') i++;
    int first = i;
    while (i < end && b[i] >= '0' && b[i] <= '9') i++;
    if (i == first) return false;
    if (b[first] == '0' && i - first > 1)
      throw new Refused("a number with a leading zero at byte " + at);
    if (i < end && b[i] == '.') {
      int dot = i++;
      while (i < end && b[i] >= '0' && b[i] <= '9') i++;
      if (i == dot + 1) throw new Refused("a number without digits after the point at byte " + at);
    }
    if (i < end && (b[i] == 'e' || b[i] == 'E')) {
      i++;
      if (i < end && (b[i] == '+' || b[i] == '-')) i++;
      int digits = i;
      while (i < end && b[i] >= '0' && b[i] <= '9') i++;
      if (i == digits) throw new Refused("a number without an exponent at byte " + at);
    }
    at = i;
    return true;
  }

  private double real(Type type, String path, String name) throws Refused {
    if (b[at] == '"') {
      int from = at;
      switch (text().toString()) {
        case "NaN":
          return Double.NaN;
        case "Infinity":
          return Double.POSITIVE_INFINITY;
        case "-Infinity":
          return Double.NEGATIVE_INFINITY;
        default:
          at = from;
          throw wrong(type, path, name);
      }
    }
    int from = at;
    if (!number()) throw wrong(type, path, name);
    // Exact for up to 15 digits and powers of ten up to 22: both are doubles without rounding, so
    // their quotient is right.
    long digits = 0;
    int count = 0, fraction = 0, i = from;
    boolean negative = b[i] == '-', point = false;
    if (negative) i++;
    for (; i < at; i++) {
      byte c = b[i];
      if (c == '.') {
        point = true;
      } else if (c >= '0' && c <= '9') {
        if (count > 0 || c != '0') count++;
        if (count > 15) break;
        digits = digits * 10 + (c - '0');
        if (point) fraction++;
      } else {
        break;
      }
    }
    double value;
    if (i == at && fraction <= 22) {
      value = digits / POWERS_OF_TEN[fraction];
      if (negative) value = -value;
    } else {
      String text = ascii(from, at);
      value = Double.parseDouble(text);
      if (Double.isInfinite(value)) throw unfit(type, path, name, text);
    }
    return value;
  }

  private Decimal decimal(Type type, String path, String name) throws Refused {
    if (!textDecimals || b[at] != '"') return bareDecimal(type, path, name);
    int from = at++;
    Decimal value = at < end ? bareDecimal(type, path, name) : null;
    if (at >= end || b[at] != '"') {
      at = from;
      throw wrong(type, path, name);
    }
    at++;
    return value;
  }

  private Decimal bareDecimal(Type type, String path, String name) throws Refused {
    int from = at;
    if (!number()) throw wrong(type, path, name);
    if (at - from > 100)
      throw unfit(type, path, name, "a number of " + (at - from) + " characters");
    // Zero fits every decimal: also one without whole digits, and with any exponent.
    if (isZero(from))
      return Decimal.apply(BigDecimal.ZERO.setScale(type.scale), type.precision, type.scale);
    String text = ascii(from, at);
    BigDecimal exact;
    try {
      exact = new BigDecimal(text);
    } catch (NumberFormatException e) {
      throw unfit(type, path, name, text); // an exponent beyond 32 bits
    }
    // In 100 characters no such number fits, and to write it out would take its exponent in memory.
    if (Math.abs((long) exact.scale()) > 1000) throw unfit(type, path, name, text);
    exact = exact.stripTrailingZeros();
    if (exact.scale() > type.scale
        || exact.precision() - exact.scale() > type.precision - type.scale)
      throw unfit(type, path, name, text);
    return Decimal.apply(exact.setScale(type.scale), type.precision, type.scale);
  }

  /** Whether the number that begins here is zero, whatever its exponent. */
  private boolean isZero(int from) {
    for (int i = from; i < at && b[i] != 'e' && b[i] != 'E'; i++)
      if (b[i] >= '1' && b[i] <= '9') return false;
    return true;
  }

  /** Moves behind a value that is not declared, checking its syntax. */
  private void skip() throws Refused {
    int depth = 0;
    long objects = 0; // one bit a level for the innermost 64; deeper levels are kept in `outer`
    ArrayList<Long> outer = null;
    while (true) {
      if (at >= end) throw new Refused("the object is not closed");
      byte c = b[at];
      boolean opened = false;
      if (c == '"') {
        string();
      } else if (c == '{' || c == '[') {
        if (++depth > MAX_DEPTH)
          throw new Refused("nested deeper than " + MAX_DEPTH + " levels at byte " + at);
        if (depth % 64 == 1 && depth > 1) {
          if (outer == null) outer = new ArrayList<>();
          outer.add(objects);
          objects = 0;
        }
        objects = objects << 1 | (c == '{' ? 1 : 0);
        at++;
        opened = true;
      } else if (c == 't') {
        word("true");
      } else if (c == 'f') {
        word("false");
      } else if (c == 'n') {
        word("null");
      } else if (!number()) {
        throw syntax("a value");
      }
      // Behind a value or an opening bracket: close what ends here, then go to the next value.
      while (true) {
        if (depth == 0) return;
        space();
        if (at >= end) throw new Refused("the object is not closed");
        boolean inObject = (objects & 1) == 1;
        c = b[at];
        if (c == (inObject ? '}' : ']')) {
          at++;
          objects >>>= 1;
          depth--;
          if (depth % 64 == 0 && depth > 0) objects = outer.remove(outer.size() - 1);
          opened = false;
          continue;
        }
        if (!opened) {
          if (c != ',') throw syntax(inObject ? "`,` or `}`" : "`,` or `]`");
          at++;
          space();
        }
        if (inObject) {
          if (at >= end || b[at] != '"') throw syntax("a field name in quotes");
          string();
          space();
          if (at >= end || b[at] != ':') throw syntax("`:`");
          at++;
          space();
        }
        break;
      }
    }
  }

  private void word(String word) throws Refused {
    int n = word.length();
    if (end - at < n) throw syntax("a value");
    for (int i = 0; i < n; i++) if (b[at + i] != word.charAt(i)) throw syntax("a value");
    at += n;
  }

  private void space() {
    while (at < end) {
      byte c = b[at];
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
      at++;
    }
  }

  private Refused syntax(String expected) {
    return new Refused("expected " + expected + " at byte " + at + ", found " + found());
  }

  private Refused wrong(Type type, String path, String name) {
    return new Refused("field `" + path + name + "`: expected " + type.name + ", found " + found());
  }

  private Refused unfit(Type type, String path, String name, String value) {
    return new Refused("field `" + path + name + "`: " + cut(value) + " does not fit " + type.name);
  }

  private String ascii(int from, int to) {
    return new String(b, from, to - from, StandardCharsets.ISO_8859_1);
  }

  private static String cut(String value) {
    return value.length() <= 60 ? value : value.substring(0, 60) + "…";
  }

  /** What stands here, in words. */
  private String found() {
    if (at >= end) return "the end";
    int c = b[at];
    if (c == '{') return "an object";
    if (c == '[') return "an array";
    if (c == '"') return "a string";
    if (c == 't' || c == 'f') return "a boolean";
    if (c == 'n') return "null";
    if (c == '-' || (c >= '0' && c <= '9')) {
      int to = at;
      while (to < end && "+-.eE0123456789".indexOf(b[to]) >= 0) to++;
      return "the number " + cut(ascii(at, to));
    }
    return c > 0x20 && c < 0x7f ? "`" + (char) c + "`" : "byte 0x" + Integer.toHexString(c & 0xff);
  }
}

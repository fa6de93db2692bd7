package headrace.kernel;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the records of a table's topic say: a row is put under its key, or the row of a key is deleted.
 *
 * <p>Plain, as views are written: the value is the row; no value deletes the row of the record's key, which is the text of a
 * single string column, or the JSON of several or other columns. Debezium's: the value is its envelope, with or without the
 * schema around it, of which `op` and `after` matter, because the row before is remembered by who reads; the key is JSON, and
 * decimals may be strings. A row with Debezium's word for a large value that it could not have is refused.
 *
 * <p>A row that comes out has the columns of the table, `+` or `-`, and the offset of the record; where it deletes, only the
 * key's columns are there.
 */
final class Changelog implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String PAYLOAD = "payload";
  private static final UTF8String PUT = UTF8String.fromString("+");
  private static final UTF8String DELETE = UTF8String.fromString("-");
  private static final UTF8String UNAVAILABLE = UTF8String.fromString("__debezium_unavailable_value");
  private static final int OP = 0;
  private static final int AFTER = 1;
  private static final int ENVELOPE_PAYLOAD = 2;

  private final int columns;
  private final StructType schema;
  private final int[] keys;
  private final boolean envelope;
  private final boolean text;
  private final JsonDecoder value;
  private final JsonDecoder key;

  Changelog(StructType schema, String[] key, boolean envelope, long epochMicros) {
    this.columns = schema.size();
    this.schema = schema;
    this.envelope = envelope;
    this.keys = new int[key.length];
    StructType keyed = new StructType();
    for (int i = 0; i < key.length; i++) {
      keys[i] = schema.fieldIndex(key[i]);
      StructField field = schema.fields()[keys[i]];
      keyed = keyed.add(field.name(), field.dataType(), true);
    }
    this.text = !envelope && key.length == 1 && keyed.apply(0).dataType().equals(DataTypes.StringType);
    StructType change = new StructType().add("op", DataTypes.StringType).add("after", schema);
    this.value = new JsonDecoder(envelope ? change.add(PAYLOAD, change) : schema, epochMicros, envelope);
    this.key = new JsonDecoder(keyed.add(PAYLOAD, keyed), epochMicros, envelope);
  }

  /** The columns of what comes out. */
  static StructType changes(StructType schema, String sign, String offset) {
    StructType columns = new StructType();
    for (StructField field : schema.fields()) columns = columns.add(field.name(), field.dataType(), true, field.metadata());
    return columns.add(sign, DataTypes.StringType).add(offset, DataTypes.LongType);
  }

  /** The change in a record; null when it tells of none. */
  InternalRow decode(byte[] keyBytes, byte[] valueBytes, long offset) throws JsonDecoder.Refused {
    if (valueBytes == null) return deleted(keyBytes, offset);
    InternalRow row = value.decode(valueBytes);
    if (!envelope) return put(row, offset);
    if (!row.isNullAt(ENVELOPE_PAYLOAD)) row = row.getStruct(ENVELOPE_PAYLOAD, 2);
    if (row.isNullAt(OP)) throw new JsonDecoder.Refused("field `op` is missing: it is not an envelope of Debezium's");
    String op = row.getUTF8String(OP).toString();
    switch (op) {
      case "c", "r", "u" -> {
        if (row.isNullAt(AFTER)) throw new JsonDecoder.Refused("field `after` is missing where `op` is " + op);
        return put(row.getStruct(AFTER, columns), offset);
      }
      case "d" -> {
        return deleted(keyBytes, offset);
      }
      case "m" -> {
        return null;
      }
      default -> throw new JsonDecoder.Refused("`op` is " + op + ", which cannot be applied to single rows");
    }
  }

  private InternalRow put(InternalRow row, long offset) throws JsonDecoder.Refused {
    Object[] values = new Object[columns + 2];
    System.arraycopy(((GenericInternalRow) row).values(), 0, values, 0, columns);
    for (int index : keys) if (values[index] == null) throw new JsonDecoder.Refused("a column of the key is null");
    for (int i = 0; envelope && i < columns; i++) if (UNAVAILABLE.equals(values[i])) throw unavailable(i);
    return change(values, PUT, offset);
  }

  private JsonDecoder.Refused unavailable(int column) {
    return new JsonDecoder.Refused("field `after." + schema.fields()[column].name() + "` holds " + UNAVAILABLE
        + ": a large value that the update left as it was; with REPLICA IDENTITY FULL it is there");
  }

  private InternalRow deleted(byte[] bytes, long offset) throws JsonDecoder.Refused {
    if (bytes == null) throw new JsonDecoder.Refused("a deletion without a key");
    Object[] values = new Object[columns + 2];
    if (text) {
      values[keys[0]] = UTF8String.fromBytes(bytes);
    } else {
      InternalRow row = key.decode(bytes);
      if (!row.isNullAt(keys.length)) row = row.getStruct(keys.length, keys.length);
      for (int i = 0; i < keys.length; i++) {
        values[keys[i]] = ((GenericInternalRow) row).values()[i];
        if (values[keys[i]] == null) throw new JsonDecoder.Refused("a deletion whose key lacks a column");
      }
    }
    return change(values, DELETE, offset);
  }

  private InternalRow change(Object[] values, UTF8String sign, long offset) {
    values[columns] = sign;
    values[columns + 1] = offset;
    return new GenericInternalRow(values);
  }
}

package headrace.kernel.decode;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the records of a table's topic say: a row is put under its key, or the row of a key is
 * deleted.
 *
 * <p>Plain, as views are written: the value is the row; no value deletes the row of the record's
 * key, which is the text of a single string column, or the JSON of several or other columns.
 * Debezium's: the value is its envelope, with or without the schema around it, of which `op` and
 * `after` matter, because the row before is remembered by who reads; the key is JSON, and decimals
 * may be strings. A row with Debezium's word for a large value that it could not have is refused.
 *
 * <p>A row that comes out has the columns of the table, `+` or `-`, the offset of the record and,
 * when it is asked for, the time of the change: the one that Debezium's `source` names, which is
 * when the database committed it, or that of the envelope, or of the record. Where it deletes, only
 * the key's columns are there.
 */
public final class Changelog implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String PAYLOAD = "payload";
  private static final UTF8String PUT = UTF8String.fromString("+");
  private static final UTF8String DELETE = UTF8String.fromString("-");
  private static final UTF8String UNAVAILABLE =
      UTF8String.fromString("__debezium_unavailable_value");
  private static final int OP = 0;
  private static final int AFTER = 1;
  private static final int AT = 2;
  private static final int SOURCE = 3;

  private final int columns;
  private final StructType schema;
  private final int[] keys;
  private final boolean envelope;
  private final boolean text;
  private final boolean timed;
  private final int payload;
  private final JsonDecoder value;
  private final JsonDecoder key;

  public Changelog(
      StructType schema, String[] key, boolean envelope, long epochMicros, boolean timed) {
    this.columns = schema.size();
    this.timed = timed;
    this.schema = schema;
    this.envelope = envelope;
    this.keys = new int[key.length];
    StructType keyed = new StructType();
    for (int i = 0; i < key.length; i++) {
      keys[i] = schema.fieldIndex(key[i]);
      StructField field = schema.fields()[keys[i]];
      keyed = keyed.add(field.name(), field.dataType(), true);
    }
    this.text =
        !envelope && key.length == 1 && keyed.apply(0).dataType().equals(DataTypes.StringType);
    StructType change = new StructType().add("op", DataTypes.StringType).add("after", schema);
    StructType time = new StructType().add("ts_ms", DataTypes.LongType);
    if (timed) change = change.add(time.apply(0)).add("source", time);
    this.payload = change.size();
    this.value =
        new JsonDecoder(envelope ? change.add(PAYLOAD, change) : schema, epochMicros, envelope);
    this.key = new JsonDecoder(keyed.add(PAYLOAD, keyed), epochMicros, envelope);
  }

  /** The columns of what comes out. */
  public static StructType changes(StructType schema, String sign, String offset, String time) {
    StructType columns = new StructType();
    for (StructField field : schema.fields())
      columns = columns.add(field.name(), field.dataType(), true, field.metadata());
    columns = columns.add(sign, DataTypes.StringType).add(offset, DataTypes.LongType);
    return time == null ? columns : columns.add(time, DataTypes.TimestampType);
  }

  /** The change in a record of this time, in microseconds; null when it tells of none. */
  InternalRow decode(byte[] keyBytes, byte[] valueBytes, long offset, long timestamp)
      throws JsonDecoder.Refused {
    // The tombstone after a deletion of Debezium's says nothing more, and it is later.
    if (valueBytes == null) return timed && envelope ? null : deleted(keyBytes, offset, timestamp);
    InternalRow row = value.decode(valueBytes);
    if (!envelope) return put(row, offset, timestamp);
    if (!row.isNullAt(payload)) row = row.getStruct(payload, payload);
    long at = timed ? at(row, timestamp) : timestamp;
    if (row.isNullAt(OP))
      throw new JsonDecoder.Refused("field `op` is missing: it is not an envelope of Debezium's");
    String op = row.getUTF8String(OP).toString();
    switch (op) {
      case "c", "r", "u" -> {
        if (row.isNullAt(AFTER))
          throw new JsonDecoder.Refused("field `after` is missing where `op` is " + op);
        return put(row.getStruct(AFTER, columns), offset, at);
      }
      case "d" -> {
        return deleted(keyBytes, offset, at);
      }
      case "m" -> {
        return null;
      }
      default ->
          throw new JsonDecoder.Refused(
              "`op` is " + op + ", which cannot be applied to single rows");
    }
  }

  private static long at(InternalRow row, long timestamp) {
    if (!row.isNullAt(SOURCE)) {
      InternalRow source = row.getStruct(SOURCE, 1);
      if (!source.isNullAt(0)) return source.getLong(0) * 1000;
    }
    return row.isNullAt(AT) ? timestamp : row.getLong(AT) * 1000;
  }

  private InternalRow put(InternalRow row, long offset, long at) throws JsonDecoder.Refused {
    Object[] values = new Object[columns + (timed ? 3 : 2)];
    System.arraycopy(((GenericInternalRow) row).values(), 0, values, 0, columns);
    for (int index : keys)
      if (values[index] == null) throw new JsonDecoder.Refused("a column of the key is null");
    for (int i = 0; envelope && i < columns; i++)
      if (UNAVAILABLE.equals(values[i])) throw unavailable(i);
    return change(values, PUT, offset, at);
  }

  private JsonDecoder.Refused unavailable(int column) {
    return new JsonDecoder.Refused(
        "field `after."
            + schema.fields()[column].name()
            + "` holds "
            + UNAVAILABLE
            + ": a large value that the update left as it was; with REPLICA IDENTITY FULL it is"
            + " there");
  }

  private InternalRow deleted(byte[] bytes, long offset, long at) throws JsonDecoder.Refused {
    if (bytes == null) throw new JsonDecoder.Refused("a deletion without a key");
    Object[] values = new Object[columns + (timed ? 3 : 2)];
    if (text) {
      values[keys[0]] = UTF8String.fromBytes(bytes);
    } else {
      InternalRow row = key.decode(bytes);
      if (!row.isNullAt(keys.length)) row = row.getStruct(keys.length, keys.length);
      for (int i = 0; i < keys.length; i++) {
        values[keys[i]] = ((GenericInternalRow) row).values()[i];
        if (values[keys[i]] == null)
          throw new JsonDecoder.Refused("a deletion whose key lacks a column");
      }
    }
    return change(values, DELETE, offset, at);
  }

  private InternalRow change(Object[] values, UTF8String sign, long offset, long at) {
    values[columns] = sign;
    values[columns + 1] = offset;
    if (timed) values[columns + 2] = at;
    return new GenericInternalRow(values);
  }
}

package headrace.kernel.simulation;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** A record as it is in the log; its time is in milliseconds. */
record KafkaRecord(String topic, int partition, long offset, long time, byte[] key, byte[] value) {
  private static final int CREATE_TIME = 0;

  /** The row that Spark's Kafka source makes of it. */
  InternalRow row() {
    return new GenericInternalRow(
        new Object[] {
          key,
          value,
          UTF8String.fromString(topic),
          partition,
          offset,
          time * 1000,
          CREATE_TIME,
          null
        });
  }
}

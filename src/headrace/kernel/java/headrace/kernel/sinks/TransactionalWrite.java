package headrace.kernel.sinks;

import headrace.kernel.meters.Latencies;
import headrace.kernel.meters.Meter;
import headrace.kernel.run.Origin;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What a query writes in exact mode: each task writes its rows (`key`, `value`, and where there is
 * one `partition`) in a transaction that also records the batch.
 *
 * <p>A batch that is run again cuts its rows into the same tasks, because the offsets it reads are
 * in Spark's log and shuffles go by key; so the tasks that are recorded are skipped, and the others
 * written. Readers may see a batch task by task.
 *
 * <p>A record that deletes a key is not written where the next one puts the same key again: it is
 * replaced, and was never away.
 *
 * <p>Spark asks it when a batch begins and ends; the tasks are told how it is planned, and the rest
 * happens there.
 */
public record TransactionalWrite(Tasks tasks, String checkpoint) implements StreamingWrite {
  public static final StructType RECORD =
      new StructType().add("key", DataTypes.BinaryType).add("value", DataTypes.BinaryType);

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    BatchPlan.tell(checkpoint);
    return tasks;
  }

  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {}

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {}

  /**
   * Where and under which names the tasks write: Kafka's options, the query, its name in the log,
   * its run, the topic.
   */
  public record Tasks(
      HashMap<String, String> kafka, String query, String name, String run, String topic)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
      return new Writer(this);
    }
  }

  private static final class Writer implements DataWriter<InternalRow> {
    private final Tasks tasks;
    private final Origin origin = Origin.current();
    private final Latencies.Batch times = new Latencies.Batch();
    private String task;
    private Transaction transaction;

    /** A record without a value, and its time: what comes next decides about it. */
    private ProducerRecord<byte[], byte[]> deleting;

    private long deletingTime;

    Writer(Tasks tasks) {
      this.tasks = tasks;
    }

    @Override
    @SuppressWarnings("ReferenceEquality") // the text of a task is the same as long as it is
    public void write(InternalRow row) {
      // A Python function reads rows ahead: those of another partition may have been read long
      // before one of them is written.
      if (origin.before() != null) refuse(origin.before());
      if (transaction == null) {
        task = origin.task();
        transaction =
            Transaction.of(tasks.kafka(), tasks.name() + "." + task, tasks.run(), tasks.topic());
      } else if (task != origin.task()) {
        refuse(task);
      }
      byte[] key = row.isNullAt(0) ? null : row.getBinary(0);
      byte[] value = row.isNullAt(1) ? null : row.getBinary(1);
      Integer partition = row.numFields() > RECORD.size() ? row.getInt(RECORD.size()) : null;
      if (deleting != null && (value == null || !Arrays.equals(key, deleting.key())))
        send(deleting, deletingTime);
      deleting = null;
      ProducerRecord<byte[], byte[]> record =
          new ProducerRecord<>(tasks.topic(), partition, key, value);
      if (value != null) {
        send(record, origin.time());
      } else {
        deleting = record;
        deletingTime = origin.time();
      }
    }

    private void refuse(String before) {
      throw new IllegalStateException(
          "rows of "
              + before
              + " and "
              + origin.task()
              + " come together in one task without a shuffle, as after coalesce(); when a batch is"
              + " run again they may come together otherwise, and what was written cannot be told:"
              + " use repartition() by a column instead");
    }

    private void send(ProducerRecord<byte[], byte[]> record, long time) {
      transaction.send(record);
      times.add(time);
    }

    @Override
    public WriterCommitMessage commit() {
      if (transaction != null) {
        if (deleting != null) send(deleting, deletingTime);
        transaction.commit();
        if (!transaction.done()) times.written(Meter.sink(tasks.query()));
      }
      transaction = null;
      return null;
    }

    @Override
    public void abort() {
      if (transaction != null) transaction.abort();
      transaction = null;
    }

    @Override
    public void close() {}
  }
}

package headrace.kernel;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The sink of exact mode: each task writes its rows (`key`, `value`, and where there is one `partition`) in a transaction
 * that also records the batch.
 *
 * <p>Options: `topic`, `query`, `name` (of the query in the log, for {@link Transaction}), `run` (another at each start), and
 * Kafka's own with the prefix `kafka.`. A batch that is run again cuts its rows into the same tasks, because the offsets it reads are in
 * Spark's log and shuffles go by key; so the tasks that are recorded are skipped, and the others written. Readers may see a
 * batch task by task.
 */
public final class TransactionalSink implements TableProvider {
  static final StructType RECORD =
      new StructType().add("key", DataTypes.BinaryType).add("value", DataTypes.BinaryType);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return RECORD;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new LogTable();
  }

  private static final class LogTable implements Table, SupportsWrite {
    @Override
    public String name() {
      return "headrace";
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return RECORD;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.STREAMING_WRITE);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new Builder(info);
    }
  }

  private record Builder(LogicalWriteInfo info) implements SupportsStreamingUpdateAsAppend {
    @Override
    public Write build() {
      HashMap<String, String> kafka = new HashMap<>();
      info.options().asCaseSensitiveMap().forEach((option, value) -> {
        if (option.startsWith("kafka.")) kafka.put(option.substring("kafka.".length()), value);
      });
      Tasks tasks = new Tasks(
          kafka, info.options().get("query"), info.options().get("name"), info.options().get("run"), info.queryId(),
          info.options().get("topic"));
      return new Write() {
        @Override
        public StreamingWrite toStreaming() {
          return new Log(tasks);
        }
      };
    }
  }

  /** Spark asks it when a batch begins and ends; everything happens in the tasks. */
  private record Log(Tasks tasks) implements StreamingWrite {
    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
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
  }

  private record Tasks(
      HashMap<String, String> kafka, String query, String name, String run, String checkpoint, String topic)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
      return new Writer(this, batch);
    }
  }

  private static final class Writer implements DataWriter<InternalRow> {
    private final Tasks tasks;
    private final long batch;
    private final Origin origin = Origin.current();
    private final Latencies.Batch times = new Latencies.Batch();
    private String task;
    private Transaction transaction;

    Writer(Tasks tasks, long batch) {
      this.tasks = tasks;
      this.batch = batch;
    }

    @Override
    public void write(InternalRow row) {
      if (transaction == null) {
        task = origin.task();
        String name = tasks.name() + "." + task;
        transaction = Transaction.of(tasks.kafka(), name, tasks.run(), tasks.checkpoint(), tasks.topic(), batch);
      } else if (task != origin.task()) {
        throw new IllegalStateException("rows of " + task + " and " + origin.task() + " come together in one task without a"
            + " shuffle, as after coalesce(); when a batch is run again they may come together otherwise, and what was written"
            + " cannot be told: use repartition() by a column instead");
      }
      byte[] key = row.isNullAt(0) ? null : row.getBinary(0);
      byte[] value = row.isNullAt(1) ? null : row.getBinary(1);
      Integer partition = row.numFields() > RECORD.size() ? row.getInt(RECORD.size()) : null;
      transaction.send(new ProducerRecord<>(tasks.topic(), partition, key, value));
      times.add(origin.time());
    }

    @Override
    public WriterCommitMessage commit() {
      if (transaction != null) {
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

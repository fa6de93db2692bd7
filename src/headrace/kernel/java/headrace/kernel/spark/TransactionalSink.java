package headrace.kernel.spark;

import headrace.kernel.sinks.TransactionalWrite;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The sink of exact mode, as a data source of Spark's: {@link TransactionalWrite} says what it
 * does.
 *
 * <p>Options: `topic`, `query`, `name` (of the query in the log), `run` (another at each start),
 * Spark's `checkpointLocation`, and Kafka's own with the prefix `kafka.`.
 */
public final class TransactionalSink implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return TransactionalWrite.RECORD;
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
      return TransactionalWrite.RECORD;
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
      info.options()
          .asCaseSensitiveMap()
          .forEach(
              (option, value) -> {
                if (option.startsWith("kafka."))
                  kafka.put(option.substring("kafka.".length()), value);
              });
      TransactionalWrite.Tasks tasks =
          new TransactionalWrite.Tasks(
              kafka,
              info.options().get("query"),
              info.options().get("name"),
              info.options().get("run"),
              info.options().get("topic"));
      String checkpoint = info.options().get("checkpointLocation");
      return new Write() {
        @Override
        public StreamingWrite toStreaming() {
          return new TransactionalWrite(tasks, checkpoint);
        }
      };
    }
  }
}

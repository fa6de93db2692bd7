package headrace.kernel.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.sql.execution.streaming.state.StateStore;

/**
 * Closes the state stores of an executor that ends; Spark loads it by `spark.plugins`. Spark itself
 * leaves them open until its next look at them, a minute later: RocksDB's own threads then still
 * run while the process takes their memory down, and it crashes now and then.
 */
public final class StorePlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void shutdown() {
        StateStore.stop();
      }
    };
  }
}

package headrace.kernel.run;

import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;

/** The batch at hand, by the names that Spark gives the properties of its tasks. */
public final class Batch {
  /** Spark's `StreamExecution.QUERY_ID_KEY`: the id that a query keeps over all its starts. */
  public static final String QUERY = "sql.streaming.queryId";

  /** Spark's `MicroBatchExecution.BATCH_ID_KEY`. */
  public static final String NUMBER = "streaming.sql.batchId";

  private Batch() {}

  /** The id of the query that a task is of. */
  public static String query(TaskContext task) {
    return task.getLocalProperty(QUERY);
  }

  /** The number of the batch that a task is of. */
  public static long number(TaskContext task) {
    return Long.parseLong(task.getLocalProperty(NUMBER));
  }

  /** The number of the batch whose tasks are started from this thread, in the driver. */
  public static long number(SparkContext spark) {
    return Long.parseLong(spark.getLocalProperty(NUMBER));
  }
}

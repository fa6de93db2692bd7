package headrace.kernel.spark;

import java.io.Closeable;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.metrics.source.Source;
import org.apache.spark.resource.ResourceInformation;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.ErrorNotifier;
import org.apache.spark.util.PostStatusUpdateListener;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;
import org.apache.spark.util.TaskInterruptListener;
import scala.Function0;
import scala.Option;

/**
 * The shuffle of live mode, with readers that are named by the partition they read, and ports
 * behind a {@link ShuffleDoor}.
 *
 * <p>Spark's names a reader by the number of its task. The two are the same until a union: behind
 * it the tasks of the second input go on counting, and would ask for partitions that do not exist.
 * That is why Spark's real-time mode takes no stateful operator before a union; with this shuffle
 * it can, and tables can be joined live.
 */
public final class PartitionShuffle extends StreamingShuffleManager {
  /** Refuses what Spark refuses of streaming plans in any mode. */
  public static void check(Dataset<Row> rows) {
    UnsupportedOperationChecker.checkForStreaming(
        ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan(), OutputMode.Update());
  }

  @Override
  @SuppressWarnings("unchecked")
  public <K, V> ShuffleWriter<K, V> getWriter(
      ShuffleHandle handle, long map, TaskContext context, ShuffleWriteMetricsReporter metrics) {
    return (ShuffleWriter<K, V>)
        ShuffleDoor.writer(handle, map, context, Option.empty(), new ErrorNotifier());
  }

  @Override
  @SuppressWarnings("unchecked")
  public <K, C> ShuffleReader<K, C> getReader(
      ShuffleHandle handle,
      int startMap,
      int endMap,
      int startPartition,
      int endPartition,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    TaskContext named =
        context.partitionId() == startPartition ? context : new Named(context, startPartition);
    return (ShuffleReader<K, C>)
        ShuffleDoor.reader(handle, named, Option.empty(), new ErrorNotifier());
  }

  /** A task under the number of the partition that it reads. */
  private static final class Named extends TaskContext {
    private static final long serialVersionUID = 1L;

    private final TaskContext task;
    private final int partition;

    Named(TaskContext task, int partition) {
      this.task = task;
      this.partition = partition;
    }

    @Override
    public int partitionId() {
      return partition;
    }

    @Override
    public boolean isCompleted() {
      return task.isCompleted();
    }

    @Override
    public boolean isFailed() {
      return task.isFailed();
    }

    @Override
    public boolean isInterrupted() {
      return task.isInterrupted();
    }

    @Override
    public TaskContext addTaskCompletionListener(TaskCompletionListener listener) {
      return task.addTaskCompletionListener(listener);
    }

    @Override
    public TaskContext addTaskPreCompletionListener(TaskCompletionListener listener) {
      return task.addTaskPreCompletionListener(listener);
    }

    @Override
    public TaskContext addTaskFailureListener(TaskFailureListener listener) {
      return task.addTaskFailureListener(listener);
    }

    @Override
    public TaskContext addTaskInterruptListener(TaskInterruptListener listener) {
      return task.addTaskInterruptListener(listener);
    }

    @Override
    public TaskContext addPostStatusUpdateListener(PostStatusUpdateListener listener) {
      return task.addPostStatusUpdateListener(listener);
    }

    @Override
    public void invokePostStatusUpdateListeners() {
      task.invokePostStatusUpdateListeners();
    }

    @Override
    public int stageId() {
      return task.stageId();
    }

    @Override
    public int stageAttemptNumber() {
      return task.stageAttemptNumber();
    }

    @Override
    public int numPartitions() {
      return task.numPartitions();
    }

    @Override
    public int attemptNumber() {
      return task.attemptNumber();
    }

    @Override
    public long taskAttemptId() {
      return task.taskAttemptId();
    }

    @Override
    public String getLocalProperty(String name) {
      return task.getLocalProperty(name);
    }

    @Override
    public scala.math.BigDecimal cpuAmount() {
      return task.cpuAmount();
    }

    @Override
    public scala.collection.immutable.Map<String, ResourceInformation> resources() {
      return task.resources();
    }

    @Override
    public Map<String, ResourceInformation> resourcesJMap() {
      return task.resourcesJMap();
    }

    @Override
    public TaskMetrics taskMetrics() {
      return task.taskMetrics();
    }

    @Override
    public scala.collection.immutable.Seq<Source> getMetricsSources(String name) {
      return task.getMetricsSources(name);
    }

    @Override
    public void killTaskIfInterrupted() {
      task.killTaskIfInterrupted();
    }

    @Override
    public Option<String> getKillReason() {
      return task.getKillReason();
    }

    @Override
    public TaskMemoryManager taskMemoryManager() {
      return task.taskMemoryManager();
    }

    @Override
    public void registerAccumulator(AccumulatorV2<?, ?> accumulator) {
      task.registerAccumulator(accumulator);
    }

    @Override
    public void setFetchFailed(FetchFailedException failure) {
      task.setFetchFailed(failure);
    }

    @Override
    public void markInterrupted(String reason) {
      task.markInterrupted(reason);
    }

    @Override
    public void markTaskFailed(Throwable failure) {
      task.markTaskFailed(failure);
    }

    @Override
    public void markTaskCompleted(Option<Throwable> failure) {
      task.markTaskCompleted(failure);
    }

    @Override
    public Option<Throwable> getTaskFailure() {
      return task.getTaskFailure();
    }

    @Override
    public Option<FetchFailedException> fetchFailed() {
      return task.fetchFailed();
    }

    @Override
    public Properties getLocalProperties() {
      return task.getLocalProperties();
    }

    @Override
    public boolean interruptible() {
      return task.interruptible();
    }

    @Override
    public void pendingInterrupt(Option<Thread> thread, String reason) {
      task.pendingInterrupt(thread, reason);
    }

    @Override
    public <T extends Closeable> T createResourceUninterruptibly(Function0<T> resource) {
      return task.createResourceUninterruptibly(resource);
    }
  }
}

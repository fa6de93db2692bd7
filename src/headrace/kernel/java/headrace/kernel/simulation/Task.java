package headrace.kernel.simulation;

import headrace.kernel.run.Origin;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.time.SourceClock;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.util.AccumulatorContext$;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** One task of a batch: what a thread knows that works on it, and objects that are its own. */
final class Task {
  /** Below those of Spark's own tasks, which count from 0. */
  private static final AtomicLong ATTEMPTS = new AtomicLong(-1000);

  private final TaskContextImpl context;
  private Origin origin;

  Task(Simulation.Run run, int partition, int partitions) {
    Properties known = new Properties();
    known.setProperty("sql.streaming.queryId", run.query.toString());
    known.setProperty("streaming.sql.batchId", String.valueOf(run.batch));
    long attempt = ATTEMPTS.decrementAndGet();
    context =
        new TaskContextImpl(
            0,
            0,
            partition,
            attempt,
            0,
            partitions,
            null,
            known,
            null,
            new TaskMetrics(),
            scala.math.BigDecimal.valueOf(1),
            scala.collection.immutable.Map$.MODULE$.empty());
    SideOutput.divert(attempt, run.aside);
  }

  /** Does something as this task. */
  <T> T doing(Supplier<T> work) {
    TaskContext$.MODULE$.setTaskContext(context);
    Origin.resume(origin);
    try {
      return work.get();
    } finally {
      origin = Origin.paused();
      TaskContext$.MODULE$.unset();
    }
  }

  /** Ends it well: who listens to its end is told, and what it has counted. */
  void complete() {
    doing(
        () -> {
          context.markTaskCompleted(Option.empty());
          return null;
        });
    for (AccumulatorV2<?, ?> one :
        CollectionConverters.asJava(context.taskMetrics().accumulators())) {
      if (!(one instanceof SourceClock counted)) continue;
      Option<AccumulatorV2<?, ?>> known = AccumulatorContext$.MODULE$.get(one.id());
      if (known.isDefined()) ((SourceClock) known.get()).merge(counted);
    }
    SideOutput.divert(context.taskAttemptId(), null);
  }
}

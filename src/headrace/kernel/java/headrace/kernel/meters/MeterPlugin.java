package headrace.kernel.meters;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/**
 * Carries the gauges of {@link Meter} from every executor to the driver, and the {@link Marker}
 * numbers back; Spark loads it by `spark.plugins`.
 */
public final class MeterPlugin implements SparkPlugin {
  private static final long INTERVAL_MS = 250;

  /** What an executor sends. */
  static final class Report implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    final String executor;
    final HashMap<String, long[]> gauges;

    Report(String executor, HashMap<String, long[]> gauges) {
      this.executor = executor;
      this.gauges = gauges;
    }
  }

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        Meter.begin();
        context.addSparkListener(
            new SparkListener() {
              @Override
              public void onExecutorRemoved(SparkListenerExecutorRemoved lost) {
                Meter.lose(lost.executorId());
              }
            });
        return Map.of();
      }

      @Override
      public Object receive(Object message) {
        if (message instanceof Report report) Meter.receive(report.executor, report.gauges);
        return Marker.numbers();
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      private ScheduledExecutorService clock;

      @Override
      public void init(PluginContext context, Map<String, String> conf) {
        clock =
            Executors.newSingleThreadScheduledExecutor(
                task -> {
                  Thread thread = new Thread(task, "headrace-meter");
                  thread.setDaemon(true);
                  return thread;
                });
        clock.scheduleWithFixedDelay(
            () -> send(context), INTERVAL_MS, INTERVAL_MS, TimeUnit.MILLISECONDS);
      }

      private void send(PluginContext context) {
        try {
          HashMap<String, long[]> gauges = Meter.read();
          if (!gauges.isEmpty()
              && context.ask(new Report(context.executorID(), gauges))
                  instanceof HashMap<?, ?> numbers)
            numbers.forEach((name, number) -> Marker.hear((String) name, (Integer) number));
        } catch (Exception e) {
          // The driver is away: it ends this executor, or the next report tells the same and more.
        }
      }

      @Override
      public void shutdown() {
        if (clock != null) clock.shutdownNow();
      }
    };
  }
}

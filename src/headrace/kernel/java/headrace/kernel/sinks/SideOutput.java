package headrace.kernel.sinks;

import headrace.kernel.run.Origin;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskFailureListener;

/**
 * Rows that leave a query beside its result: dead letters and late rows, written to their topics by
 * the task that finds them, so that no operator of the user's ever sees them and none is decoded
 * twice.
 *
 * <p>A task ends only when what it wrote here is acknowledged by all replicas, and fails otherwise;
 * Spark then runs the batch again. With a name, as in exact mode, a task writes in a {@link
 * Transaction}, which a batch that is run again finds recorded: each row is written once. Without
 * one a row may stand in the topic again after a crash, dead letters with the same source position
 * in their headers, by which readers drop the repeat.
 */
public final class SideOutput implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The largest record that Headrace writes, and room for what a letter says of it. */
  private static final int LARGEST_LETTER = 65 * 1024 * 1024;

  private static final ConcurrentHashMap<Map<String, String>, KafkaProducer<byte[], byte[]>>
      PRODUCERS = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, Consumer<ProducerRecord<byte[], byte[]>>> TASKS =
      new ConcurrentHashMap<>();

  private static final ConcurrentHashMap<Long, Consumer<ProducerRecord<byte[], byte[]>>> DIVERTED =
      new ConcurrentHashMap<>();

  private final HashMap<String, String> options;
  private final String name;
  private final String run;

  /**
   * Kafka client options, `bootstrap.servers` among them; `name` is unique in the log, or null;
   * `run` in time.
   */
  public SideOutput(Map<String, String> kafka, String name, String run) {
    this.name = name;
    this.run = run;
    options = new HashMap<>(kafka);
    options.put("acks", "all");
    options.put("enable.idempotence", "true");
    options.put("linger.ms", "5");
    options.put("compression.type", "lz4");
    options.put("max.request.size", String.valueOf(LARGEST_LETTER));
    options.put("buffer.memory", String.valueOf(2 * LARGEST_LETTER));
  }

  public static Header header(String name, Object value) {
    return new RecordHeader(name, String.valueOf(value).getBytes(StandardCharsets.UTF_8));
  }

  /** What a task puts aside goes there and not to the log; with null no more. */
  public static void divert(long task, Consumer<ProducerRecord<byte[], byte[]>> there) {
    if (there == null) DIVERTED.remove(task);
    else DIVERTED.put(task, there);
  }

  public void send(String topic, byte[] key, byte[] value, Iterable<Header> headers) {
    TaskContext task = TaskContext.get();
    String mine = task.taskAttemptId() + "\t" + name;
    Consumer<ProducerRecord<byte[], byte[]>> known =
        DIVERTED.getOrDefault(task.taskAttemptId(), TASKS.get(mine));
    if (known == null)
      TASKS.put(
          mine, known = name == null ? acknowledged(task, mine) : transaction(task, mine, topic));
    known.accept(new ProducerRecord<>(topic, null, key, value, headers));
  }

  private Consumer<ProducerRecord<byte[], byte[]>> transaction(
      TaskContext task, String mine, String topic) {
    Transaction transaction =
        Transaction.of(options, name + "." + Origin.current().task(), run, topic);
    boolean[] failed = new boolean[1];
    // Failure listeners are called before completion listeners, also for a task that is killed.
    task.addTaskFailureListener((TaskFailureListener) (context, error) -> failed[0] = true);
    task.addTaskCompletionListener(
        context -> {
          TASKS.remove(mine);
          if (failed[0]) transaction.abort();
          else transaction.commit();
        });
    return transaction::send;
  }

  private Consumer<ProducerRecord<byte[], byte[]>> acknowledged(TaskContext task, String mine) {
    KafkaProducer<byte[], byte[]> producer =
        PRODUCERS.computeIfAbsent(
            options,
            o ->
                new KafkaProducer<>(
                    new HashMap<>(o), new ByteArraySerializer(), new ByteArraySerializer()));
    AtomicReference<Exception> failure = new AtomicReference<>();
    task.addTaskCompletionListener(
        context -> {
          producer.flush();
          TASKS.remove(mine);
          Exception error = failure.get();
          if (error != null)
            throw new IllegalStateException(
                "a side output could not be written: " + error.getMessage(), error);
        });
    return record ->
        producer.send(
            record,
            (position, error) -> {
              if (error != null) failure.compareAndSet(null, error);
            });
  }
}

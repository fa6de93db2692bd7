package headrace.kernel;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;

/**
 * Rows that leave a query beside its result: dead letters and late rows, written to their topics by the task that finds
 * them, so that no operator of the user's ever sees them and none is decoded twice.
 *
 * <p>A task ends only when what it wrote here is acknowledged by all replicas, and fails otherwise; Spark then runs the
 * batch again. So nothing is lost, and after a crash a row may stand in the topic again with the same source position in
 * its headers, by which readers drop the repeat.
 */
public final class SideOutput implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ConcurrentHashMap<Map<String, String>, KafkaProducer<byte[], byte[]>> PRODUCERS =
      new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<Long, AtomicReference<Exception>> TASKS = new ConcurrentHashMap<>();

  private final HashMap<String, String> options;

  /** Kafka client options, `bootstrap.servers` among them. */
  public SideOutput(Map<String, String> kafka) {
    options = new HashMap<>(kafka);
    options.put("acks", "all");
    options.put("enable.idempotence", "true");
    options.put("linger.ms", "5");
    options.put("compression.type", "lz4");
    options.put("max.request.size", "20971520");
  }

  static Header header(String name, Object value) {
    return new RecordHeader(name, String.valueOf(value).getBytes(StandardCharsets.UTF_8));
  }

  void send(String topic, byte[] key, byte[] value, Iterable<Header> headers) {
    KafkaProducer<byte[], byte[]> producer = PRODUCERS.computeIfAbsent(options,
        o -> new KafkaProducer<>(new HashMap<>(o), new ByteArraySerializer(), new ByteArraySerializer()));
    AtomicReference<Exception> failure = failure(producer);
    producer.send(new ProducerRecord<>(topic, null, key, value, headers), (position, error) -> {
      if (error != null) failure.compareAndSet(null, error);
    });
  }

  /** Where this task's first failed write is kept; the first call in a task makes the task wait for its writes. */
  private static AtomicReference<Exception> failure(KafkaProducer<byte[], byte[]> producer) {
    TaskContext task = TaskContext.get();
    AtomicReference<Exception> known = TASKS.get(task.taskAttemptId());
    if (known != null) return known;
    AtomicReference<Exception> failure = new AtomicReference<>();
    TASKS.put(task.taskAttemptId(), failure);
    task.addTaskCompletionListener(context -> {
      producer.flush();
      TASKS.remove(task.taskAttemptId());
      Exception error = failure.get();
      if (error != null) throw new IllegalStateException("a side output could not be written: " + error.getMessage(), error);
    });
    return failure;
  }
}

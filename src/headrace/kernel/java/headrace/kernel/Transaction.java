package headrace.kernel;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What one task of a batch writes to the log: all of it or nothing, and once, however often the batch is run.
 *
 * <p>A task has a name (the query's and its partition's), which is both its transactional id, so that a task of the same
 * name that still runs elsewhere is fenced, and a consumer group. The transaction commits `batch + 1` as that group's
 * offset, together with the records, and the id of the checkpoint as its metadata. A task that finds its batch recorded
 * writes nothing. A record of another checkpoint does not count: that one's batches are not these.
 *
 * <p>Producers live as long as the run of a query and are given back for the next batch; one that failed is closed, and
 * the next task of that name opens another, which aborts what the failed one left open. What is said of the producer by
 * the caller stands; the rest is here, {@link #OPTIONS}.
 */
public final class Transaction {
  private static final ConcurrentHashMap<String, Open> PRODUCERS = new ConcurrentHashMap<>();
  private static final Map<String, String> OPTIONS = Map.of(
      "acks", "all",
      "enable.idempotence", "true",
      "linger.ms", "5",
      "batch.size", String.valueOf(128 * 1024),
      "compression.type", "lz4",
      // A transaction that begins while the broker still ends the one before is told to come again.
      "retry.backoff.ms", "10",
      // A task may compute for long between its first row and its last; fifteen minutes is the most that brokers allow.
      "transaction.timeout.ms", String.valueOf(15 * 60_000));

  /** A producer between two transactions, the run it was opened for and the last batch that its name has recorded. */
  private record Open(KafkaProducer<byte[], byte[]> producer, String run, long recorded) {}

  private final String name;
  private final String run;
  private final String checkpoint;
  private final String topic;
  private final long batch;
  private final KafkaProducer<byte[], byte[]> producer;
  private final long recorded;
  private final AtomicReference<Exception> failure = new AtomicReference<>();
  private boolean begun;

  private Transaction(String name, String run, String checkpoint, String topic, long batch, Open open) {
    this.name = name;
    this.run = run;
    this.checkpoint = checkpoint;
    this.topic = topic;
    this.batch = batch;
    this.producer = open.producer();
    this.recorded = open.recorded();
  }

  /** The transaction of a task in a batch; `run` differs each time the query is started, `checkpoint` stays. */
  static Transaction of(
      Map<String, String> kafka, String name, String run, String checkpoint, String topic, long batch) {
    Open open = PRODUCERS.remove(name);
    if (open != null && !open.run().equals(run)) {
      open.producer().close(Duration.ZERO);
      open = null;
    }
    if (open == null) open = open(kafka, name, run, checkpoint, topic);
    return new Transaction(name, run, checkpoint, topic, batch, open);
  }

  private static Open open(Map<String, String> kafka, String name, String run, String checkpoint, String topic) {
    Map<String, Object> options = new HashMap<>(OPTIONS);
    options.putAll(kafka);
    options.put("transactional.id", name);
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      producer.initTransactions();
      return new Open(producer, run, recorded(kafka, name, checkpoint, topic));
    } catch (RuntimeException error) {
      producer.close(Duration.ZERO);
      throw error;
    }
  }

  /** The last batch that is in the log under this name, or -1. */
  private static long recorded(Map<String, String> kafka, String name, String checkpoint, String topic) {
    Map<String, Object> options = new HashMap<>(kafka);
    options.keySet().removeIf(option -> !org.apache.kafka.clients.admin.AdminClientConfig.configNames().contains(option));
    try (Admin admin = Admin.create(options)) {
      OffsetAndMetadata found = admin
          .listConsumerGroupOffsets(name, new ListConsumerGroupOffsetsOptions().requireStable(true))
          .partitionsToOffsetAndMetadata()
          .get()
          .get(new TopicPartition(topic, 0));
      return found != null && checkpoint.equals(found.metadata()) ? found.offset() - 1 : -1;
    } catch (ExecutionException error) {
      if (error.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException) return -1;
      throw new KafkaException("the record of " + name + " cannot be read", error.getCause());
    } catch (InterruptedException error) {
      throw new org.apache.kafka.common.errors.InterruptException(error);
    }
  }

  /** Close the producers of a run that has ended. */
  public static void close(String run) {
    PRODUCERS.forEach((name, open) -> {
      if (open.run().equals(run) && PRODUCERS.remove(name, open)) open.producer().close(Duration.ZERO);
    });
  }

  /** Whether the batch is in the log already, so that nothing of it must be written. */
  boolean done() {
    return recorded >= batch;
  }

  void send(ProducerRecord<byte[], byte[]> record) {
    if (done()) return;
    if (!begun) producer.beginTransaction();
    begun = true;
    producer.send(record, (position, error) -> {
      if (error != null) failure.compareAndSet(null, error);
    });
    raise();
  }

  /** All that was sent is in the log when this returns, and readers of committed records see it. */
  void commit() {
    if (begun) {
      producer.flush();
      raise();
      producer.sendOffsetsToTransaction(
          Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(batch + 1, checkpoint)),
          new ConsumerGroupMetadata(name));
      producer.commitTransaction();
    }
    PRODUCERS.put(name, new Open(producer, run, begun ? batch : recorded));
  }

  /** Nothing of it will be seen; safe after any failure. */
  void abort() {
    // Closing without waiting leaves the transaction open at the broker; the next of this name aborts it.
    try {
      if (begun) producer.abortTransaction();
    } catch (KafkaException error) {
      // It has been fenced, or the log is away: the broker or the next of this name ends it.
    } finally {
      producer.close(Duration.ZERO);
    }
  }

  private void raise() {
    Exception error = failure.get();
    if (error != null) throw new KafkaException("a record of " + name + " could not be written: " + error.getMessage(), error);
  }
}

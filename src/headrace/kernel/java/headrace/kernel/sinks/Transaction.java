package headrace.kernel.sinks;

import headrace.kernel.run.Batch;
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
import org.apache.spark.TaskContext;

/**
 * What one task of a batch writes to the log: all of it or nothing, and once, however often the
 * batch is run.
 *
 * <p>A task has a name (the query's and its partition's), which is both its transactional id, so
 * that a task of the same name that still runs elsewhere is fenced, and a consumer group. The
 * transaction commits `batch + 1` as that group's offset, together with the records, and as its
 * metadata the id of the checkpoint and the {@link BatchPlan} of the batch.
 *
 * <p>A task that finds its batch recorded, and with the same plan, writes nothing: the same plan is
 * the same rows. Anything else that is not older than the batch was written by a checkpoint that
 * was ahead of this one, or by another. The rows of this batch are then not those that were
 * written, and skipping them would lose some, so the task fails ({@link #check}).
 *
 * <p>Producers live as long as the run of a query and are given back for the next batch; one that
 * failed is closed, and the next task of that name opens another, which aborts what the failed one
 * left open. What is said of the producer by the caller stands; the rest is here, {@link #OPTIONS}.
 */
public final class Transaction {
  /**
   * Ends the text of a record: the Python client reads on behind one that does not say where it
   * ends.
   */
  private static final String END = "\0";

  private static final ConcurrentHashMap<String, Open> PRODUCERS = new ConcurrentHashMap<>();
  private static final Map<String, String> OPTIONS =
      Map.of(
          "acks", "all",
          "enable.idempotence", "true",
          "linger.ms", "5",
          "batch.size", String.valueOf(128 * 1024),
          "compression.type", "lz4",
          // A transaction that begins while the broker still ends the one before is told to come
          // again.
          "retry.backoff.ms", "10",
          // A task may compute for long between its first row and its last; fifteen minutes is the
          // most that brokers allow.
          "transaction.timeout.ms", String.valueOf(15 * 60_000));

  /**
   * What the log has recorded under a name: the last batch, of which checkpoint, and how it was
   * planned.
   */
  private record Recorded(String checkpoint, long batch, String plan) {
    private static final Recorded NOTHING = new Recorded(null, -1, null);

    static Recorded of(OffsetAndMetadata found) {
      if (found == null) return NOTHING;
      String[] parts = found.metadata().replace(END, "").split(":", 2);
      return new Recorded(parts[0], found.offset() - 1, parts.length > 1 ? parts[1] : "");
    }

    OffsetAndMetadata offset() {
      return new OffsetAndMetadata(batch + 1, checkpoint + ":" + plan + END);
    }
  }

  /**
   * A producer between two transactions, the run it was opened for and what its name has recorded.
   */
  private record Open(KafkaProducer<byte[], byte[]> producer, String run, Recorded recorded) {}

  private final String name;
  private final String run;
  private final String topic;
  private final Recorded mine;
  private final KafkaProducer<byte[], byte[]> producer;
  private final Recorded recorded;
  private final AtomicReference<Exception> failure = new AtomicReference<>();
  private boolean begun;

  private Transaction(String name, String run, String topic, Recorded mine, Open open) {
    this.name = name;
    this.run = run;
    this.topic = topic;
    this.mine = mine;
    this.producer = open.producer();
    this.recorded = open.recorded();
  }

  /**
   * The transaction of the task at hand, in the batch that it is of; `run` differs each time the
   * query is started. Fails where the log knows of a later batch, of another plan of this one, or
   * of another checkpoint.
   */
  static Transaction of(Map<String, String> kafka, String name, String run, String topic) {
    TaskContext task = TaskContext.get();
    Recorded mine = new Recorded(Batch.query(task), Batch.number(task), BatchPlan.of(task));
    Open open = PRODUCERS.remove(name);
    if (open != null && !open.run().equals(run)) {
      open.producer().close(Duration.ZERO);
      open = null;
    }
    if (open == null) open = open(kafka, name, run, topic);
    try {
      check(name, mine, open.recorded());
    } catch (IllegalStateException error) {
      open.producer().close(Duration.ZERO);
      throw error;
    }
    return new Transaction(name, run, topic, mine, open);
  }

  private static void check(String name, Recorded mine, Recorded recorded) {
    if (recorded.checkpoint() == null) return;
    String said = name + " has recorded batch " + recorded.batch();
    if (!recorded.checkpoint().equals(mine.checkpoint()))
      throw new IllegalStateException(
          "another checkpoint has written here: "
              + said
              + " of the checkpoint "
              + recorded.checkpoint()
              + ", and this is batch "
              + mine.batch()
              + " of "
              + mine.checkpoint());
    boolean same = recorded.batch() == mine.batch() && recorded.plan().equals(mine.plan());
    if (recorded.batch() >= mine.batch() && !same)
      throw new IllegalStateException(
          "the log is ahead of the checkpoint: "
              + said
              + " with the plan "
              + recorded.plan()
              + ", and this is batch "
              + mine.batch()
              + " with the plan "
              + mine.plan());
  }

  private static Open open(Map<String, String> kafka, String name, String run, String topic) {
    Map<String, Object> options = new HashMap<>(OPTIONS);
    options.putAll(kafka);
    options.put("transactional.id", name);
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      producer.initTransactions();
      return new Open(producer, run, recorded(kafka, name, topic));
    } catch (RuntimeException error) {
      producer.close(Duration.ZERO);
      throw error;
    }
  }

  private static Recorded recorded(Map<String, String> kafka, String name, String topic) {
    Map<String, Object> options = new HashMap<>(kafka);
    options
        .keySet()
        .removeIf(
            option ->
                !org.apache.kafka.clients.admin.AdminClientConfig.configNames().contains(option));
    try (Admin admin = Admin.create(options)) {
      return Recorded.of(
          admin
              .listConsumerGroupOffsets(
                  name, new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata()
              .get()
              .get(new TopicPartition(topic, 0)));
    } catch (ExecutionException error) {
      if (error.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException)
        return Recorded.NOTHING;
      throw new KafkaException("the record of " + name + " cannot be read", error.getCause());
    } catch (InterruptedException error) {
      throw new org.apache.kafka.common.errors.InterruptException(error);
    }
  }

  /** Close the producers of a run that has ended. */
  public static void close(String run) {
    PRODUCERS.forEach(
        (name, open) -> {
          if (open.run().equals(run) && PRODUCERS.remove(name, open))
            open.producer().close(Duration.ZERO);
        });
  }

  /** Whether the batch is in the log already, so that nothing of it must be written. */
  boolean done() {
    return recorded.batch() == mine.batch();
  }

  void send(ProducerRecord<byte[], byte[]> record) {
    if (done()) return;
    if (!begun) producer.beginTransaction();
    begun = true;
    producer.send(
        record,
        (position, error) -> {
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
          Map.of(new TopicPartition(topic, 0), mine.offset()), new ConsumerGroupMetadata(name));
      producer.commitTransaction();
    }
    PRODUCERS.put(name, new Open(producer, run, begun ? mine : recorded));
  }

  /** Nothing of it will be seen; safe after any failure. */
  void abort() {
    // Closing without waiting leaves the transaction open at the broker; the next of this name
    // aborts it.
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
    if (error != null)
      throw new KafkaException(
          "a record of " + name + " could not be written: " + error.getMessage(), error);
  }
}

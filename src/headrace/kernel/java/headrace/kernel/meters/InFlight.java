package headrace.kernel.meters;

import headrace.kernel.run.Origin;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Since when records of a live query wait to be acknowledged: those that were written before are in
 * the log.
 *
 * <p>Spark's Kafka sink says nothing of it before its batch ends, so this listens at the producer.
 * An acknowledgement names no record but has its time, which is therefore set here. What was
 * acknowledged is counted, and how long each record took from the time of the one it was made of to
 * its own.
 */
public final class InFlight implements ProducerInterceptor<byte[], byte[]> {
  private static final ConcurrentHashMap<String, InFlight.Records> QUERIES =
      new ConcurrentHashMap<>();

  private String query;
  private Records records;

  /** How many of a query wait, and how many of each millisecond. */
  private static final class Records {
    final AtomicLong waiting = new AtomicLong();
    final ConcurrentSkipListMap<Long, Integer> times = new ConcurrentSkipListMap<>();

    long since() {
      if (waiting.get() == 0) return Long.MIN_VALUE;
      Map.Entry<Long, Integer> first = times.firstEntry();
      return first == null ? Long.MIN_VALUE : -first.getKey();
    }

    void remove(Long time) {
      times.computeIfPresent(time, (key, count) -> count == 1 ? null : count - 1);
    }
  }

  /**
   * Write what is known to the gauges of {@link Meter}; times are negated, so that the greatest is
   * the oldest.
   */
  static void tell() {
    QUERIES.forEach((query, records) -> Meter.sink(query).set(Meter.UNWRITTEN, records.since()));
  }

  static void forget(String query) {
    QUERIES.remove(query);
  }

  @Override
  public void configure(Map<String, ?> options) {
    query = String.valueOf(options.get("headrace.query"));
    records = QUERIES.computeIfAbsent(query, name -> new Records());
  }

  @Override
  public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
    long now = record.timestamp() != null ? record.timestamp() : System.currentTimeMillis();
    records.times.merge(now, 1, Integer::sum);
    records.waiting.incrementAndGet();
    long of = Origin.current().time();
    if (of != Origin.NO_TIME) Meter.sink(query).latencies().add(now - of);
    return new ProducerRecord<>(
        record.topic(), record.partition(), now, record.key(), record.value(), record.headers());
  }

  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception error) {
    Long time = metadata != null && metadata.hasTimestamp() ? (Long) metadata.timestamp() : null;
    if (time == null
        || !records.times.containsKey(time)) { // it was refused, or the broker sets the time
      Map.Entry<Long, Integer> oldest = records.times.firstEntry();
      time = oldest == null ? null : oldest.getKey();
    }
    if (time != null) records.remove(time);
    records.waiting.decrementAndGet();
    if (error == null) Meter.sink(query).written(1);
  }

  @Override
  public void close() {}
}

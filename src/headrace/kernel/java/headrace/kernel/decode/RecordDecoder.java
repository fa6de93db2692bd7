package headrace.kernel.decode;

import headrace.kernel.meters.Meter;
import headrace.kernel.run.Origin;
import headrace.kernel.run.RunName;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.time.SourceClock;
import headrace.kernel.time.Timestamps;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * The records of a topic as rows: what fits the schema goes on, what does not goes to the
 * dead-letter topic with its place, its reason and its bytes untouched.
 *
 * <p>It runs inside Spark's generated code as an ordinary expression, in every mode. It is declared
 * non-deterministic so that the optimizer evaluates it once a record and never moves it.
 */
public final class RecordDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String query;
  private final String topic;
  private final String deadTopic;
  private final JsonDecoder json;
  private final Changelog changelog;
  private final int eventTime;
  private final int sent;
  private final int received;
  private final long futureMicros;
  private final SideOutput side;
  private final SourceClock clock;
  private final int branch;
  private transient Meter.Gauge gauge;
  private transient SourceClock.Partition time;
  private transient int gaugePartition;
  private transient Origin origin;

  /**
   * Of a topic that a query reads.
   *
   * @param changelog null unless the topic is that of a table
   * @param times the fields of the event time, of when a device sent the record and of when it was
   *     received, each or -1: the event time is corrected by how far the device's clock was off
   * @param futureMicros a record whose event time is more than this ahead of the record's own time
   *     is refused, because it would drag the watermark along (negative: no bound)
   * @param side null when there is nowhere to put what does not fit; then it is counted and left
   *     out
   * @param clock what is told the event times, or null
   */
  public RecordDecoder(
      String query,
      String topic,
      String deadTopic,
      JsonDecoder json,
      Changelog changelog,
      int[] times,
      long futureMicros,
      SideOutput side,
      SourceClock clock,
      int branch) {
    this.query = query;
    this.topic = topic;
    this.deadTopic = deadTopic;
    this.json = json;
    this.changelog = changelog;
    this.eventTime = times[0];
    this.sent = times[1];
    this.received = times[2];
    this.futureMicros = futureMicros;
    this.side = side;
    this.clock = clock;
    this.branch = branch;
  }

  public String topic() {
    return topic;
  }

  /** What is told the event times, or null. */
  public SourceClock clock() {
    return clock;
  }

  /** The same for another branch of the query, `Branches`. */
  public RecordDecoder of(int branch, SourceClock clock) {
    return new RecordDecoder(
        query,
        topic,
        deadTopic,
        json,
        changelog,
        new int[] {eventTime, sent, received},
        futureMicros,
        side,
        clock,
        branch);
  }

  /** Called by Spark for each record. Null when it does not fit. */
  public InternalRow decode(
      byte[] value, byte[] key, int partition, long offset, long timestamp, ArrayData headers) {
    if (gauge == null || gaugePartition != partition) {
      gauge = Meter.gauge(query, Origin.inBranch(topic, branch), partition);
      gaugePartition = partition;
      if (clock != null) time = clock.partition(partition);
      origin = Origin.current();
      gauge.set(Meter.OFFSET, offset); // a batch that is run again reads again
    }
    origin.set(topic, partition, branch, offset, timestamp / 1000);
    gauge.add(Meter.ROWS);
    gauge.raise(Meter.OFFSET, offset + 1);
    String reason;
    try {
      InternalRow row =
          changelog == null ? json.decode(value) : changelog.decode(key, value, offset, timestamp);
      if (eventTime < 0) return row;
      long at = corrected(row, timestamp);
      if (futureMicros < 0 || at - timestamp <= futureMicros) {
        gauge.raise(Meter.EVENT_TIME, at);
        if (clock != null) clock.note(time, at);
        return row;
      }
      StringBuilder text = new StringBuilder("the event time ");
      Timestamps.write(text, at, true);
      reason = text.append(" is in the future").toString();
    } catch (JsonDecoder.Refused refused) {
      reason = refused.getMessage();
    }
    gauge.add(Meter.DEAD);
    if (side != null)
      side.send(deadTopic, key, value, letter(reason, partition, offset, timestamp, headers));
    return null;
  }

  /** The event time; where a device sent it, with its clock set right, also in the row. */
  private long corrected(InternalRow row, long timestamp) {
    long at = row.getLong(eventTime);
    if (sent < 0 || row.isNullAt(sent) || (received >= 0 && row.isNullAt(received))) return at;
    at += (received >= 0 ? row.getLong(received) : timestamp) - row.getLong(sent);
    row.update(eventTime, at);
    return at;
  }

  private List<Header> letter(
      String reason, int partition, long offset, long timestamp, ArrayData headers) {
    List<Header> letter =
        new ArrayList<>(
            List.of(
                SideOutput.header("headrace.topic", topic),
                SideOutput.header("headrace.partition", partition),
                SideOutput.header("headrace.offset", offset),
                SideOutput.header("headrace.timestamp", timestamp / 1000),
                SideOutput.header("headrace.reason", reason),
                SideOutput.header("headrace.query", RunName.bare(query))));
    for (int i = 0, n = headers == null ? 0 : headers.numElements(); i < n; i++) {
      InternalRow header = headers.getStruct(i, 2);
      String name = header.getUTF8String(0).toString();
      if (!name.startsWith("headrace."))
        letter.add(new RecordHeader(name, header.isNullAt(1) ? null : header.getBinary(1)));
    }
    return letter;
  }
}

package headrace.kernel.operators;

import headrace.kernel.encode.JsonEncoder;
import headrace.kernel.meters.Meter;
import headrace.kernel.run.RunName;
import headrace.kernel.sinks.SideOutput;
import headrace.kernel.state.PackedRow;
import headrace.kernel.time.Timestamps;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Where an operator puts rows that came too late for it: the late topic, as JSON, with the
 * watermark they missed.
 */
public final class LateRows implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String query;
  private final String operator;
  private final String topic;
  private final SideOutput side;
  private transient StructType columns;
  private transient JsonEncoder encoder;

  /** With a null side, late rows are counted and left out. */
  public LateRows(String query, String operator, String topic, SideOutput side) {
    this.query = query;
    this.operator = operator;
    this.topic = topic;
    this.side = side;
  }

  /** The query, as it is known in this process. */
  public String query() {
    return query;
  }

  /** The operator's, with its query. */
  String name() {
    return query + '\t' + operator;
  }

  /** The operator's, which no other of its query has. */
  public String operator() {
    return operator;
  }

  Meter.Gauge gauge(int partition) {
    return Meter.gauge(query, operator, partition);
  }

  /** A row that is late, or has no event time at all (`at` null). */
  void send(byte[] packed, StructType schema, Long at, long watermarkMicros, Meter.Gauge gauge) {
    send(PackedRow.read(packed, schema.size()), schema, at, watermarkMicros, gauge);
  }

  /** The same for a row whose first columns are those of the schema. */
  @SuppressWarnings("ReferenceEquality") // an operator has one schema or two, and compares fast
  void send(InternalRow row, StructType schema, Long at, long watermarkMicros, Meter.Gauge gauge) {
    gauge.add(Meter.LATE);
    if (side == null) return;
    StringBuilder watermark = new StringBuilder();
    Timestamps.write(watermark, watermarkMicros, true);
    List<Header> headers = new ArrayList<>();
    headers.add(SideOutput.header("headrace.query", RunName.bare(query)));
    headers.add(SideOutput.header("headrace.operator", operator));
    headers.add(SideOutput.header("headrace.watermark", watermark));
    headers.add(SideOutput.header("headrace.reason", at == null ? "no event time" : "late"));
    if (columns != schema) encoder = new JsonEncoder(columns = schema);
    side.send(topic, null, encoder.encode(row), headers);
  }
}

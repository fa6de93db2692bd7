package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.time.BatchWatermark;
import java.util.HashMap;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Rows of a pane and key together, with what the aggregates have gathered of them. */
final class GatheredPanes extends Gathered<GatheredPanes.Pane> {
  private final Windowing windowing;
  private HashMap<PaneKey, Pane> panes = new HashMap<>();

  private record PaneKey(long pane, Key key) {
    @Override
    public int hashCode() {
      // Panes are far apart and evenly so: without mixing, those of many keys meet.
      return key.hash ^ Long.hashCode(pane * 0x9E3779B97F4A7C15L);
    }
  }

  static final class Pane {
    final PaneKey of;
    final Accumulator values;
    int rows;

    Pane(PaneKey of, Accumulator values) {
      this.of = of;
      this.values = values;
    }
  }

  GatheredPanes(
      Operator operator, BatchWatermark watermark, Windowing windowing, Iterator<byte[]> rows) {
    super(operator, watermark, rows);
    this.windowing = windowing;
  }

  @Override
  int size() {
    return panes.size();
  }

  @Override
  Iterator<Pane> empty() {
    Iterator<Pane> full = panes.values().iterator();
    panes = new HashMap<>();
    return full;
  }

  @Override
  boolean isLate(long at) {
    return windowing.lastEnd(windowing.pane(at)) + operator.lateness <= watermark.micros();
  }

  @Override
  void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
    PaneKey of = new PaneKey(windowing.pane(at), key);
    Pane pane = panes.get(of);
    if (pane == null) panes.put(of, pane = new Pane(of, operator.aggregates.empty()));
    operator.aggregates.add(pane.values, row, at);
    pane.rows++;
  }

  @Override
  byte[] message(Pane pane, long time) {
    Key key = pane.of.key;
    ByteSink out = new ByteSink(64 + key.bytes.length);
    out.put(Message.PARTIAL)
        .putInt(operator.shard(key.hash))
        .putLong(pane.of.pane)
        .putSized(key.bytes)
        .putInt(pane.rows);
    operator.aggregates.write(pane.values, out);
    return out.putLong(time).bytes();
  }
}

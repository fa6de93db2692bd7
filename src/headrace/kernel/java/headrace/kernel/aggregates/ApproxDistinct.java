package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.hll.TgtHllType;
import org.apache.datasketches.hll.Union;
import org.apache.datasketches.memory.Memory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** HyperLogLog. */
final class ApproxDistinct extends Aggregate {
  private final int input;
  private final DataType type;
  private final int lgK;

  ApproxDistinct(int input, DataType type, int lgK) {
    this.input = input;
    this.type = type;
    this.lgK = lgK;
  }

  @Override
  int cells() {
    return 1;
  }

  private HllSketch sketch(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = new HllSketch(lgK, TgtHllType.HLL_8);
    return (HllSketch) of.cells[cell];
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (row.isNullAt(input)) return;
    if (Value.isLong(type)) {
      sketch(to).update(Value.asLong(row, input, type));
      return;
    }
    ByteSink bytes = new ByteSink(32);
    Value.write(bytes, Value.of(row, input, type), type);
    sketch(to).update(bytes.bytes());
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] == null) return;
    Union union = new Union(lgK);
    union.update(sketch(to));
    union.update(sketch(from));
    to.cells[cell] = union.getResult(TgtHllType.HLL_8);
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell] == null ? 0L : Math.round(sketch(of).getCompositeEstimate());
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toCompactByteArray());
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    byte[] bytes = Value.sized(in);
    if (bytes.length > 0) to.cells[cell] = HllSketch.heapify(Memory.wrap(bytes));
  }
}

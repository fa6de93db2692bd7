package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.datasketches.kll.KllDoublesSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.spark.sql.catalyst.InternalRow;

/** KLL. */
final class ApproxQuantile extends Aggregate {
  private final int input;
  private final double rank;
  private final int k;

  ApproxQuantile(int input, double rank, int k) {
    this.input = input;
    this.rank = rank;
    this.k = k;
  }

  @Override
  int cells() {
    return 1;
  }

  private KllDoublesSketch sketch(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = KllDoublesSketch.newHeapInstance(k);
    return (KllDoublesSketch) of.cells[cell];
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input) && !Double.isNaN(row.getDouble(input)))
      sketch(to).update(row.getDouble(input));
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) sketch(to).merge(sketch(from));
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell] == null || sketch(of).isEmpty()
        ? null
        : (Object) sketch(of).getQuantile(rank);
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toByteArray());
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    byte[] bytes = Value.sized(in);
    if (bytes.length > 0) to.cells[cell] = KllDoublesSketch.heapify(Memory.wrap(bytes));
  }
}

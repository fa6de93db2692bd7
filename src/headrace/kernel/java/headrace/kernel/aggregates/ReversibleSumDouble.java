package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;

/** The sum of doubles, or their mean; what is not finite is counted apart. */
final class ReversibleSumDouble extends ReversibleAggregate {
  private static final int NAN = 1;
  private static final int UP = 2;
  private static final int DOWN = 3;
  private final boolean mean;

  ReversibleSumDouble(int input, boolean mean) {
    super(input);
    this.mean = mean;
  }

  @Override
  int lanes() {
    return 4;
  }

  @Override
  int cells() {
    return 1;
  }

  private ExactSum sum(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = new ExactSum();
    return (ExactSum) of.cells[cell];
  }

  @Override
  void change(Accumulator to, InternalRow row, int times) {
    if (row.isNullAt(input)) return;
    double value = row.getDouble(input);
    to.lanes[lane] += times;
    if (Double.isFinite(value)) sum(to).add(times > 0 ? value : -value);
    else to.lanes[lane + (Double.isNaN(value) ? NAN : value > 0 ? UP : DOWN)] += times;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    for (int i = 0; i < 4; i++) to.lanes[lane + i] += from.lanes[lane + i];
    if (from.cells[cell] != null) sum(to).add(sum(from));
  }

  @Override
  Object result(Accumulator of) {
    long count = of.lanes[lane];
    if (count == 0) return null;
    boolean up = of.lanes[lane + UP] > 0, down = of.lanes[lane + DOWN] > 0;
    if (of.lanes[lane + NAN] > 0 || (up && down)) return Double.NaN;
    if (up) return Double.POSITIVE_INFINITY;
    if (down) return Double.NEGATIVE_INFINITY;
    double sum = sum(of).value();
    return mean ? sum / count : sum;
  }

  @Override
  boolean isClear(Accumulator of) {
    return of.cells[cell] == null || sum(of).isZero();
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    sum(from).write(out);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    to.cells[cell] = ExactSum.read(in);
  }
}

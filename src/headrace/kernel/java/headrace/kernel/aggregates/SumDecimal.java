package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/** The sum of decimals; one that does not fit any more is an error. */
final class SumDecimal extends Aggregate {
  private final int input;
  private final DecimalType in;
  private final DecimalType type;
  private final String name;

  SumDecimal(int input, DecimalType in, DecimalType type, String name) {
    this.input = input;
    this.in = in;
    this.type = type;
    this.name = name;
  }

  @Override
  int cells() {
    return 1;
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) plus(to, row.getDecimal(input, in.precision(), in.scale()));
  }

  private void plus(Accumulator to, Decimal value) {
    if (value == null) return;
    Decimal sum = to.cells[cell] == null ? value.clone() : ((Decimal) to.cells[cell]).$plus(value);
    if (!sum.changePrecision(type.precision(), type.scale())) throw overflow(name, type.sql());
    to.cells[cell] = sum;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    plus(to, (Decimal) from.cells[cell]);
  }

  @Override
  Object result(Accumulator of) {
    return of.cells[cell];
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    Value.write(out, from.cells[cell], type);
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    to.cells[cell] = Value.read(in, type);
  }
}

package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/** The sum of decimals of any size. */
final class ReversibleSumDecimal extends ReversibleAggregate {
  private final DecimalType in;
  private final DecimalType type;
  private final String name;

  ReversibleSumDecimal(int input, DecimalType in, DataType type, String name) {
    super(input);
    this.in = in;
    this.type = (DecimalType) type;
    this.name = name;
  }

  @Override
  int lanes() {
    return 1;
  }

  @Override
  int cells() {
    return 1;
  }

  @Override
  void change(Accumulator to, InternalRow row, int times) {
    if (row.isNullAt(input)) return;
    BigInteger value =
        row.getDecimal(input, in.precision(), in.scale()).toJavaBigDecimal().unscaledValue();
    plus(to, times > 0 ? value : value.negate(), times);
  }

  private void plus(Accumulator to, BigInteger value, long count) {
    BigInteger known = (BigInteger) to.cells[cell], sum = known == null ? value : known.add(value);
    to.cells[cell] = sum.signum() == 0 ? null : sum;
    to.lanes[lane] += count;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    plus(
        to,
        from.cells[cell] == null ? BigInteger.ZERO : (BigInteger) from.cells[cell],
        from.lanes[lane]);
  }

  @Override
  Object result(Accumulator of) {
    if (of.lanes[lane] == 0) return null;
    return decimal(
        of.cells[cell] == null ? BigInteger.ZERO : (BigInteger) of.cells[cell], type, name);
  }

  @Override
  boolean isClear(Accumulator of) {
    return of.cells[cell] == null;
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    out.putSized(
        from.cells[cell] == null ? new byte[0] : ((BigInteger) from.cells[cell]).toByteArray());
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    byte[] bytes = Value.sized(in);
    if (bytes.length > 0) to.cells[cell] = new BigInteger(bytes);
  }

  static Decimal decimal(BigInteger unscaled, DecimalType type, String name) {
    BigDecimal exact = new BigDecimal(unscaled, type.scale());
    if (exact.precision() > type.precision()) throw overflow(name, type.sql());
    return Decimal.apply(exact, type.precision(), type.scale());
  }
}

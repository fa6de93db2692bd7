package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;

/** The sum of whole numbers, or of decimals of no more than 18 digits, in 128 bits. */
final class ReversibleSumLong extends ReversibleAggregate {
  private final DataType in;
  private final DataType type;
  private final String name;

  ReversibleSumLong(int input, DataType in, DataType type, String name) {
    super(input);
    this.in = in;
    this.type = type;
    this.name = name;
  }

  @Override
  int lanes() {
    return 3;
  }

  @Override
  void change(Accumulator to, InternalRow row, int times) {
    if (row.isNullAt(input)) return;
    long value =
        in instanceof DecimalType decimal
            ? row.getDecimal(input, decimal.precision(), decimal.scale()).toUnscaledLong()
            : Value.asLong(row, input, in);
    if (times > 0) plus(to, value, value >> 63, times);
    else plus(to, -value, value == Long.MIN_VALUE ? 0 : -value >> 63, times);
  }

  private void plus(Accumulator to, long low, long high, long count) {
    long sum = to.lanes[lane] + low;
    to.lanes[lane + 1] += high + (Long.compareUnsigned(sum, low) < 0 ? 1 : 0);
    to.lanes[lane] = sum;
    to.lanes[lane + 2] += count;
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    plus(to, from.lanes[lane], from.lanes[lane + 1], from.lanes[lane + 2]);
  }

  @Override
  Object result(Accumulator of) {
    if (of.lanes[lane + 2] == 0) return null;
    long low = of.lanes[lane], high = of.lanes[lane + 1];
    if (type instanceof DecimalType decimal) {
      BigInteger sum = new BigInteger(new ByteSink(16).putLong(high).putLong(low).bytes());
      return ReversibleSumDecimal.decimal(sum, decimal, name);
    }
    if (high != low >> 63) throw overflow(name, "bigint");
    return low;
  }
}

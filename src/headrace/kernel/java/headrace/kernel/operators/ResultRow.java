package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.Key;
import headrace.kernel.state.Value;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The values of a result of a window: its key, its bounds, the aggregates and, where results
 * change, a plus or minus.
 */
final class ResultRow {
  private static final UTF8String PLUS = UTF8String.fromString("+");
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final Operator operator;
  private final DataType[] types;
  private final UnsafeRow row;

  ResultRow(Operator operator) {
    this.operator = operator;
    this.types =
        Arrays.stream(operator.key.fields())
            .map(field -> field.dataType())
            .toArray(DataType[]::new);
    this.row = new UnsafeRow(types.length);
  }

  /** Of a window; one that never ends has no bounds. */
  Object[] of(Key key, long start, long end, Accumulator gathered) {
    Object[] values = new Object[operator.output.size()];
    row.pointTo(key.bytes, key.bytes.length);
    int at = 0;
    for (; at < types.length; at++) values[at] = Value.of(row, at, types[at]);
    if (end != Long.MAX_VALUE) {
      values[at++] = start;
      values[at++] = end;
    }
    operator.aggregates.results(gathered, values, at);
    return operator.changes ? plus(values) : values;
  }

  static boolean isMinus(Object[] values) {
    return values[values.length - 1] == MINUS;
  }

  static Object[] plus(Object[] values) {
    values[values.length - 1] = PLUS;
    return values;
  }

  static Object[] minus(Object[] values) {
    values[values.length - 1] = MINUS;
    return values;
  }
}

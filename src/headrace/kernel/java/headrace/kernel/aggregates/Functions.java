package headrace.kernel.aggregates;

import headrace.kernel.state.Value;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;

/**
 * Which aggregate a declaration means. Each has a file of its own; those of rows that may be taken
 * back begin with `Reversible`, since what is left must be that of the rows that are there, without
 * a trace of the others.
 */
final class Functions {
  /** A decimal of so many digits is a long inside. */
  private static final int LONG_DIGITS = 18;

  private Functions() {}

  /**
   * The one that a spec of operators/aggregate.py names, its place among those of the operator, and
   * where inputs begin.
   */
  static Aggregate of(Declared one, int number, int firstInput) {
    int input = one.input() < 0 ? -1 : firstInput + one.input();
    int by = one.by() < 0 ? -1 : firstInput + one.by();
    DataType type = DataType.fromDDL(one.type());
    DataType in = one.inputType() == null ? type : DataType.fromDDL(one.inputType());
    DataType byType = one.byType() == null ? null : DataType.fromDDL(one.byType());
    String kind = one.kind();
    boolean greatest = kind.startsWith("max");
    if (one.takenBack()) return reversible(one, number, input, by, type, in, byType, greatest);
    return switch (kind) {
      case "count" -> new Count(input);
      case "sum" ->
          type instanceof DoubleType
              ? new SumDouble(input, false)
              : type instanceof DecimalType decimal
                  ? new SumDecimal(input, (DecimalType) in, decimal, one.name())
                  : new SumLong(input, in, one.name());
      case "avg" -> new SumDouble(input, true);
      case "min", "max" ->
          Value.isLong(in)
              ? new ExtremeLong(input, in, greatest)
              : new Extreme(input, -1, in, in, greatest);
      case "min_by", "max_by" ->
          one.ties() == null
              ? new Extreme(input, by, in, byType, greatest)
              : new Tied(input, by, in, byType, greatest, one.ties());
      case "first", "last" -> new FirstOrLast(input, in, kind.equals("last"));
      case "collect" -> new Collect(input, in, one.most());
      case "count_distinct" -> new CountDistinct(input, in);
      case "approx_distinct" -> new ApproxDistinct(input, in, one.lgK());
      case "approx_quantile" -> new ApproxQuantile(input, one.q(), one.k());
      case "approx_top_k" -> new ApproxTop(input, one.k(), one.capacity());
      case "count_min" ->
          new CountMin(input, one.of().toArray(String[]::new), one.error(), one.confidence());
      default -> throw new IllegalArgumentException("there is no aggregate " + kind);
    };
  }

  /** The same over rows that may be taken back. */
  private static Aggregate reversible(
      Declared one,
      int number,
      int input,
      int by,
      DataType type,
      DataType in,
      DataType byType,
      boolean greatest) {
    return switch (one.kind()) {
      case "count" -> new Count(input);
      case "sum" ->
          type instanceof DoubleType
              ? new ReversibleSumDouble(input, false)
              : in instanceof DecimalType decimal && decimal.precision() > LONG_DIGITS
                  ? new ReversibleSumDecimal(input, decimal, type, one.name())
                  : new ReversibleSumLong(input, in, type, one.name());
      case "avg" -> new ReversibleSumDouble(input, true);
      case "min", "max" -> new ReversibleExtreme(number, input, -1, in, in, greatest, 0);
      case "min_by", "max_by" ->
          new ReversibleExtreme(
              number, input, by, in, byType, greatest, one.ties() == null ? 0 : one.ties());
      case "count_distinct" -> new ReversibleCountDistinct(number, input, in);
      default -> throw new IllegalArgumentException(one.kind() + " cannot take rows back");
    };
  }
}

package headrace.kernel;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import scala.math.Ordering;

/**
 * The aggregate functions of rows that may be taken back, also before they come: what is left is that of the rows that are
 * there, without a trace of the others.
 */
final class Reversible {
  private static final int LONG_DIGITS = 18;

  private Reversible() {}

  /** The one of this kind over a table. */
  static Aggregate of(String kind, int number, String name, int input, int by, DataType type, DataType in, DataType byType,
      JsonNode ties) {
    return switch (kind) {
      case "sum" -> type instanceof DoubleType ? new SumReal(input, false)
          : in instanceof DecimalType decimal && decimal.precision() > LONG_DIGITS ? new SumBig(input, decimal, type, name)
          : new SumWhole(input, in, type, name);
      case "avg" -> new SumReal(input, true);
      case "min", "max" -> new Best(number, input, -1, in, in, kind.equals("max"), 0);
      case "min_by", "max_by" -> new Best(number, input, by, in, byType, kind.equals("max_by"), ties.asInt(0));
      case "count_distinct" -> new Different(number, input, in);
      default -> throw new IllegalArgumentException(kind + " cannot take rows back");
    };
  }

  /** One that can. */
  private abstract static class Function extends Aggregate {
    final int input;

    Function(int input) {
      this.input = input;
    }

    abstract void change(Accumulator to, InternalRow row, int times);

    @Override
    final void add(Accumulator to, InternalRow row, long at) {
      change(to, row, 1);
    }

    @Override
    final void remove(Accumulator from, InternalRow row) {
      change(from, row, -1);
    }

    @Override
    final boolean takesOut() {
      return true;
    }
  }

  /** The sum of whole numbers, or of decimals of no more than 18 digits, in 128 bits. */
  private static final class SumWhole extends Function {
    private final DataType in;
    private final DataType type;
    private final String name;

    SumWhole(int input, DataType in, DataType type, String name) {
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
      long value = in instanceof DecimalType decimal
          ? row.getDecimal(input, decimal.precision(), decimal.scale()).toUnscaledLong() : Value.asLong(row, input, in);
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
      if (!(type instanceof DecimalType)) {
        if (high != low >> 63) throw Functions.overflow(name, "bigint");
        return low;
      }
      BigInteger sum = new BigInteger(new ByteSink(16).putLong(high).putLong(low).bytes());
      return decimal(sum, (DecimalType) type, name);
    }
  }

  private static Decimal decimal(BigInteger unscaled, DecimalType type, String name) {
    BigDecimal exact = new BigDecimal(unscaled, type.scale());
    if (exact.precision() > type.precision()) throw Functions.overflow(name, type.sql());
    return Decimal.apply(exact, type.precision(), type.scale());
  }

  /** The sum of decimals of any size. */
  private static final class SumBig extends Function {
    private final DecimalType in;
    private final DecimalType type;
    private final String name;

    SumBig(int input, DecimalType in, DataType type, String name) {
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
      BigInteger value = row.getDecimal(input, in.precision(), in.scale()).toJavaBigDecimal().unscaledValue();
      plus(to, times > 0 ? value : value.negate(), times);
    }

    private void plus(Accumulator to, BigInteger value, long count) {
      BigInteger known = (BigInteger) to.cells[cell], sum = known == null ? value : known.add(value);
      to.cells[cell] = sum.signum() == 0 ? null : sum;
      to.lanes[lane] += count;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      plus(to, from.cells[cell] == null ? BigInteger.ZERO : (BigInteger) from.cells[cell], from.lanes[lane]);
    }

    @Override
    Object result(Accumulator of) {
      if (of.lanes[lane] == 0) return null;
      return decimal(of.cells[cell] == null ? BigInteger.ZERO : (BigInteger) of.cells[cell], type, name);
    }

    @Override
    boolean isClear(Accumulator of) {
      return of.cells[cell] == null;
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      out.putSized(from.cells[cell] == null ? new byte[0] : ((BigInteger) from.cells[cell]).toByteArray());
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      byte[] bytes = Value.sized(in);
      if (bytes.length > 0) to.cells[cell] = new BigInteger(bytes);
    }
  }

  /** The sum of doubles, or their mean; what is not finite is counted apart. */
  private static final class SumReal extends Function {
    private static final int NAN = 1;
    private static final int UP = 2;
    private static final int DOWN = 3;
    private final boolean mean;

    SumReal(int input, boolean mean) {
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
      if (of.lanes[lane + NAN] > 0 || up && down) return Double.NaN;
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

  /** Something of all values there are, each with how often it is there. */
  private abstract static class Counted extends Function implements SortedBag.Items<Object> {
    private final int number;
    final DataType type;
    private transient Ordering<Object> order;

    Counted(int number, int input, DataType type) {
      super(input);
      this.number = number;
      this.type = type;
    }

    @Override
    public final int number() {
      return number;
    }

    @Override
    final int cells() {
      return 1;
    }

    @SuppressWarnings("unchecked")
    final SortedBag<Object> bag(Accumulator of) {
      if (of.cells[cell] == null) of.cells[cell] = new SortedBag<>(this);
      return (SortedBag<Object>) of.cells[cell];
    }

    @SuppressWarnings("unchecked")
    static Ordering<Object> ordering(DataType type) {
      return (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(type);
    }

    final int values(Object one, Object other) {
      if (one == null || other == null) return Boolean.compare(one != null, other != null);
      if (one instanceof Long a && other instanceof Long b) return Long.compare(a, b);
      if (order == null) order = ordering(type);
      return order.compare(one, other);
    }

    @Override
    final void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] != null) bag(to).addAll(bag(from));
    }

    @Override
    final boolean isClear(Accumulator of) {
      return of.cells[cell] == null || bag(of).isEmpty();
    }

    @Override
    final void attach(Accumulator of, SortedBag.Pages pages) {
      bag(of).attach(pages);
    }

    @Override
    final void save(Accumulator of, SortedBag.Pages pages) {
      bag(of).save(pages);
    }

    @Override
    final void write(Accumulator from, ByteSink out) {
      bag(from).write(out);
    }

    @Override
    final void read(Accumulator to, ByteBuffer in) {
      to.cells[cell] = SortedBag.read(this, in);
    }

    @Override
    final SortedBag.Items<?> items() {
      return this;
    }
  }

  /** A value and what it is ranked by. */
  private record Ranked(Object by, Object value) {}

  /**
   * The value whose `by` is least or greatest, of equals the least value; without `by` the least or greatest itself. With
   * `ties` all values with that `by`, so many at most.
   */
  private static final class Best extends Counted {
    private final int by;
    private final DataType byType;
    private final boolean greatest;
    private final int ties;
    private transient Ordering<Object> byOrder;

    Best(int number, int input, int by, DataType type, DataType byType, boolean greatest, int ties) {
      super(number, input, type);
      this.by = by;
      this.byType = byType;
      this.greatest = greatest;
      this.ties = ties;
    }

    @Override
    void change(Accumulator to, InternalRow row, int times) {
      if (row.isNullAt(by < 0 ? input : by)) return;
      Object value = Value.of(row, input, type);
      bag(to).add(by < 0 ? value : new Ranked(Value.of(row, by, byType), value), times);
    }

    @Override
    public int compare(Object one, Object other) {
      if (by < 0) return greatest ? values(other, one) : values(one, other);
      Ranked a = (Ranked) one, b = (Ranked) other;
      int compared = byOrder(a, b);
      return compared != 0 ? compared : values(a.value, b.value);
    }

    private int byOrder(Ranked a, Ranked b) {
      if (byOrder == null) byOrder = ordering(byType);
      return greatest ? byOrder.compare(b.by, a.by) : byOrder.compare(a.by, b.by);
    }

    @Override
    Object result(Accumulator of) {
      Object first = bag(of).first();
      if (first == null || by < 0) return first;
      if (ties == 0) return ((Ranked) first).value;
      ArrayList<Object> found = new ArrayList<>();
      bag(of).each((item, times) -> {
        if (byOrder((Ranked) item, (Ranked) first) != 0) return false;
        for (int i = 0; i < times && found.size() < ties; i++) found.add(((Ranked) item).value);
        return found.size() < ties;
      });
      return new GenericArrayData(found.toArray());
    }

    @Override
    public void write(Object item, ByteSink out) {
      if (by >= 0) Value.write(out, ((Ranked) item).by, byType);
      Value.write(out, by < 0 ? item : ((Ranked) item).value, type);
    }

    @Override
    public Object read(ByteBuffer in) {
      if (by < 0) return Value.read(in, type);
      Object key = Value.read(in, byType);
      return new Ranked(key, Value.read(in, type));
    }
  }

  /** How many different values there are. */
  private static final class Different extends Counted {
    Different(int number, int input, DataType type) {
      super(number, input, type);
    }

    @Override
    void change(Accumulator to, InternalRow row, int times) {
      if (!row.isNullAt(input)) bag(to).add(Value.of(row, input, type), times);
    }

    @Override
    public int compare(Object one, Object other) {
      return values(one, other);
    }

    @Override
    Object result(Accumulator of) {
      return (long) bag(of).different();
    }

    @Override
    public void write(Object item, ByteSink out) {
      Value.write(out, item, type);
    }

    @Override
    public Object read(ByteBuffer in) {
      return Value.read(in, type);
    }
  }
}
